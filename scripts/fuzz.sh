#!/bin/sh
# Runs every fuzz target of the module for $1 (a Go duration), one after another, since
# go test fuzzes one target at a time. It runs no other tests.
set -eu
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
grep -rn --include='*_test.go' '^func Fuzz' . | sed -E 's|^\./([^:]*):[0-9]*:func (Fuzz[A-Za-z0-9_]*).*|\1 \2|' | sort | while read -r file target; do
	echo "== ./$(dirname "$file") $target"
	if ! go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$1" >"$log" 2>&1; then
		# When the time is over while an input runs, go test may call that a failure.
		if grep -q 'Failing input' "$log" || ! grep -qx ' *context deadline exceeded' "$log"; then
			cat "$log"
			exit 1
		fi
	fi
	grep '^fuzz: .*execs' "$log" | tail -1
done

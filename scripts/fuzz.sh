#!/bin/sh
# Runs every fuzz target of the module for $1 (a Go duration), one after another.
set -e
cd "$(dirname "$0")/.."
grep -rn --include='*_test.go' '^func Fuzz' . | sed -E 's|^\./([^:]*):[0-9]*:func (Fuzz[A-Za-z0-9_]*).*|\1 \2|' | sort | while read -r file target; do
	echo "== ./$(dirname "$file") $target"
	go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$1"
done

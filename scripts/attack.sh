#!/usr/bin/env bash
# Runs every attack in scripts/attack against bin/thole, or $THOLE. It exits
# with 0 if all of them failed to do harm.
set -uo pipefail
cd "$(dirname "$0")"
out=$(mktemp)
trap 'rm -f "$out"' EXIT
code=0
for attack in attack/*.sh; do
	[ "$attack" = attack/lib.sh ] && continue
	if bash "$attack" >"$out" 2>&1; then
		echo "held: $attack"
	else
		code=1
		echo "not held: $attack"
		cat "$out"
	fi
done
exit $code

#!/bin/sh
# Runs the tests of packages on every backend, with servers, and prints how many
# ran on each: the lines "matrix: …" of the contract suite, of the concepts' tests and
# of the examples. When a test fails it prints everything.
#
# usage: scripts/matrix.sh PACKAGE …
set -eu
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! THOLE_TEST=all go test -vet=off -timeout 30m -count=1 -v "$@" >"$log" 2>&1; then
	cat "$log"
	exit 1
fi
grep -oE '^ok.*|matrix: .*' "$log"

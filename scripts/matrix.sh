#!/bin/sh
# Runs the tests of packages, with servers, and prints what ran on each backend:
# the lines "matrix: …" of the contract suite and of the concepts' tests. A test
# that fails shows everything.
#
# usage: scripts/matrix.sh PACKAGE …
set -eu
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! THOLE_TEST=all go test -timeout 15m -count=1 -v "$@" >"$log" 2>&1; then
	cat "$log"
	exit 1
fi
grep -oE '^ok.*|matrix: .*' "$log"

#!/bin/bash
# Runs what make test leaves out because it takes long, and ends with a table of
# what was run. It goes on after a suite that fails, prints all that the suite
# said, and then ends with 1. GOFLAGS=-run=NAME makes a trial of it.
#
# usage: make soak [SUITES="NAME …"]
set -uo pipefail
cd "$(dirname "$0")/.."
export THOLE_SOAK=1 THOLE_TEST=all
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
wanted=" $* "
code=0
printf '%-14s %-62s %-20s %s\n' suite what 'how many' time >"$out/table"

suite() { # NAME WHAT COMMAND…: runs the command, and adds a line to the table
	local name=$1 what=$2 began=$SECONDS count failed=
	shift 2
	[[ $wanted = "  " || $wanted = *" $name "* ]] || return 0
	echo "$name: $what"
	if ! "$@" >"$out/log" 2>&1; then
		code=1 failed=', FAILED'
		cat "$out/log"
	fi
	grep -E 'matrix:|schedules|kills on|linearizable|fired:|^ok ' "$out/log" | sed 's/^/  /'
	count=$(grep -cE '^ *--- PASS|^== ' "$out/log")
	printf '%-14s %-62s %-20s %d:%02d\n' "$name" "$what" "$count passed$failed" $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)) >>"$out/table"
}

suite stores "concepts, contract, models, mutants, schedules on every store" \
	go test -vet=off -timeout 180m -count=1 -v $STORES
suite faults "kills, cluster, contention, resumption" \
	go test -tags faults -vet=off -timeout 180m -parallel 4 -count=1 -v ./cmd/thole
suite race "everything under the race detector, faults too" \
	make --no-print-directory race-soak
suite fuzz "each fuzz target for ${FUZZTIME:-1m}" \
	scripts/fuzz.sh "${FUZZTIME:-1m}"
suite fuzz-api "requests made from the OpenAPI document for ${FUZZAPITIME:-10m}" \
	make --no-print-directory fuzz-api FUZZTIME="${FUZZAPITIME:-10m}"
echo
cat "$out/table"
exit $code

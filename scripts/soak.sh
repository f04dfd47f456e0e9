#!/bin/bash
# Runs what make test leaves out because it takes long, suite by suite, and ends with
# one table of what it did. It goes on after a suite that fails, and then ends with 1.
# What a suite said is in soak/SUITE.log.
#
# usage: make soak [SUITES="NAME …"]
set -uo pipefail
cd "$(dirname "$0")/.."
export THOLE_TEST=soak
stores='./backend/... ./api/wire' binary=./cmd/thole
concepts=$(go list ./... | grep -vE '/(backend|api/wire|cmd/thole)(/|$)')
mkdir -p soak
wanted=" $* " code=0
row() { printf '%-14s %-58s %-14s %-8s %s\n' "$@"; }
row suite what 'how many' time result >soak/table

suite() { # NAME WHAT COMMAND…: runs the command, and adds its line to the table
	local name=$1 what=$2 began=$SECONDS log=soak/$1.log result=ok
	shift 2
	[[ $wanted = "  " || $wanted = *" $name "* ]] || return 0
	echo "$name: $what"
	if ! "$@" >"$log" 2>&1; then
		code=1 result=FAILED
		grep -E -A20 '^ *--- FAIL|^FAIL|^panic|DATA RACE' "$log"
	fi
	row "$name" "$what" "$(grep -cE '^ *--- PASS|^== ' "$log") passed" \
		"$(((SECONDS - began) / 60)):$(printf %02d $(((SECONDS - began) % 60)))" "$result" >>soak/table
	grep -oE 'matrix: .*|.*schedules.*:.*|kills on .*|linearizable.*' "$log" | sed 's/^ */  /' >>soak/table
}
export GOFLAGS="${GOFLAGS:-} -v"
full() { make --no-print-directory full PACKAGES="$1"; }
race() { make --no-print-directory race PACKAGES="$1"; }

suite stores "contract, model, mutants and schedules, on every store" full "$stores"
suite concepts "concepts, library, agent and REST, on every store" full "$concepts"
suite binary "kills, cluster, contention, resumption, requests at random" full "$binary"
suite race-stores "stores, under the race detector" race "$stores"
suite race-concepts "concepts, under the race detector" race "$concepts"
suite race-binary "binary, under the race detector" race "$binary"
suite fuzz "each fuzz target for ${FUZZTIME:-1m}" scripts/fuzz.sh "${FUZZTIME:-1m}"
echo
cat soak/table
exit $code

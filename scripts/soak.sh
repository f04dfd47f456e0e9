#!/bin/bash
# Runs what make test leaves out because it takes long, suite by suite. At the end it
# prints a table that says when each suite ran last and what it did. It continues after a
# suite that fails, and then exits with 1. The output of a suite is in soak/SUITE.log.
#
# usage: make soak [SUITES="NAME …"]
set -uo pipefail
cd "$(dirname "$0")/.."
export THOLE_TEST=soak GOFLAGS="${GOFLAGS:-} -v"
stores='./backend/... ./api/wire' binary=./cmd/thole
concepts=$(go list ./... | grep -vE '/(backend|api/wire|cmd/thole)(/|$)' | tr '\n' ' ')
tree=$(git describe --always --dirty)
mkdir -p soak
wanted=" $* " known=' ' code=0

row() { printf '%-14s %-56s %-13s %-8s %-7s %s\n' "$@"; }

# counts prints the numbers that the tests of a log reported.
counts() {
	sed -nE -e 's/^ *[a-z_]+\.go:[0-9]+: (.*(schedules|lives|kill|clients|watchers|restarts|entries|cuts,|rounds|fenced|started).*|matrix: .*)/  \1/p' \
		-e t -e 's/^ *((matrix: |kills on |.*linearizable).*)/  \1/p' "$1" | cut -c1-160
}

suite() { # NAME WHAT COMMAND…: runs the command, and notes its rows of the table
	local name=$1 what=$2 began=$SECONDS log=soak/$1.log result=ok
	shift 2
	known+="$name "
	[[ $wanted = "  " || $wanted = *" $name "* ]] || return 0
	echo "$name: $what"
	if ! "$@" >"$log" 2>&1; then
		code=1 result=FAILED
		grep -E -A20 '^ *--- FAIL|^FAIL|^panic|DATA RACE' "$log"
	fi
	began=$((SECONDS - began))
	{
		row "$name" "$what" "$(grep -cE '^ *--- PASS|^== ' "$log") passed" $((began / 60)):$(printf %02d $((began % 60))) $result "$tree"
		counts "$log"
	} >"soak/$name.rows"
}
full() { make --no-print-directory full PACKAGES="$1"; }
race() { make --no-print-directory race PACKAGES="$1"; }

suite stores "contract, model, mutants, schedules, on every store" full "$stores"
suite concepts "concepts, library, agent, REST, on every store" full "$concepts"
suite binary "kills, cluster, contention, resumption, random requests" full "$binary"
suite race-stores "stores, under the race detector" race "$stores"
suite race-concepts "concepts, under the race detector" race "$concepts"
suite race-binary "binary, under the race detector" race "$binary"
suite fuzz "each fuzz target for ${FUZZTIME:-1m}" scripts/fuzz.sh "${FUZZTIME:-1m}"

for name in $wanted; do
	[[ $known = *" $name "* ]] || { echo "no suite $name; there are:$known" >&2; code=1; }
done
echo
row suite what 'how many' time result tree
for name in $known; do cat "soak/$name.rows" 2>/dev/null; done
exit $code

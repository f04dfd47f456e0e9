#!/bin/bash
# Runs the README's first command, then the sample's turns beside three other runs, with
# three watchers: two from the start, one later. Everything is typed as a user would type
# it, in an empty folder and on a free port. The script exits with 0 if all runs
# succeeded, the files were edited and all watchers saw the same.
set -euo pipefail
cd "$(dirname "$0")/.."
turns=$PWD/examples/turns.sh
out=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$out"' EXIT
start() { # FILE COMMAND…: runs it in the background with its output in FILE and FILE.err
	local file=$1
	shift
	"$@" >"$file" 2>"$file.err" &
	pids+=($!)
}
until_true() { # COMMAND…: waits until it holds
	for _ in $(seq 1200); do
		if "$@"; then return; fi
		kill -0 "${pids[@]}" || break # one of them ended by itself
		sleep 0.25
	done
	echo "waited in vain for: $*" >&2
	tail "$out"/* >&2
	return 1
}

go build -o "$out/thole" ./cmd/thole # go run would do; its child is harder to stop
mkdir "$out/here"
cd "$out/here"
start "$out/dev" "$out/thole" dev --listen 127.0.0.1:0
until_true grep -q 'listening on' "$out/dev"
cat "$out/dev"
url=$(sed -n 's/^listening on //p' "$out/dev") space=project:sample
start "$out/first" "$out/thole" tail $space --after=
start "$out/second" "$out/thole" tail $space --server "$url" --after=

"$turns" "$url" >"$out/turns" & runs=($!)
for page in one two three; do
	"$turns" "$url" $space "Write the page $page" >"$out/$page" & runs+=($!)
done
until_true grep -q 'tool.completed' "$out/first"
start "$out/late" "$out/thole" tail $space --server "$url" --after=
for run in "${runs[@]}"; do wait "$run"; done
cat "$out/turns"

events=$("$out/thole" log $space --limit 100000 --json | wc -l)
for who in first second late; do
	until_true sh -c "[ \$(wc -l <$out/$who) -ge $events ]"
	cmp "$out/first" "$out/$who"
done
grep -q royalblue thole-sample/src/components/Button.js
for page in One Two Three; do grep -q "<h1>$page</h1>" thole-sample/pages/${page,,}.html; done
"$out/thole" doctor
echo "three watchers saw the same $events events; the files were edited"

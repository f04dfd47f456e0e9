#!/bin/sh
# The sample's three turns: one thread, three runs, each streamed until its
# event "complete".
#
# usage: examples/turns.sh [URL [SPACE]]
set -eu
url=${1:-http://127.0.0.1:8465}
space=${2:-project:sample}

thread=$(curl -fsS -X POST "$url/v1/spaces/$space/threads" -H 'Content-Type: application/json' \
	-d '{"title": "A button"}' | sed -E 's/.*"id": ?"(thrd_[0-9a-f]+)".*/\1/')
echo "thread $thread in $space"
for prompt in "Create a button component" "Make it blue" "Add a click handler"; do
	echo
	echo "> $prompt"
	curl -fsSN "$url/v1/spaces/$space/threads/$thread/runs" \
		-H 'Accept: text/event-stream' -H 'Content-Type: application/json' \
		-d "{\"prompt\": \"$prompt\"}" |
		sed -nE 's/^event: (tool.*|file.*|run.*|message.completed|complete)$/  \1/p'
done

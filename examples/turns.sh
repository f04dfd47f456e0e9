#!/bin/sh
# The sample's three turns: one thread, three runs, each streamed until its
# event "complete". It fails if a run does not succeed.
#
# usage: examples/turns.sh [URL [SPACE [PROMPT…]]]
set -eu
url=${1:-http://127.0.0.1:8465}
space=${2:-project:sample}
if [ $# -lt 3 ]; then
	set -- "$url" "$space" "Create a button component" "Make it blue" "Add a click handler"
fi
shift 2
ended=$(mktemp)
why=$(mktemp)
trap 'rm -f "$ended" "$why"' EXIT

thread=$(curl -fsS -X POST "$url/v1/spaces/$space/threads" -H 'Content-Type: application/json' \
	-d '{"title": "A button"}' | sed -E 's/.*"id": ?"(thrd_[0-9a-f]+)".*/\1/')
echo "thread $thread in $space"
for prompt; do
	echo
	echo "> $prompt"
	curl -fsSN "$url/v1/spaces/$space/threads/$thread/runs" \
		-H 'Accept: text/event-stream' -H 'Content-Type: application/json' \
		-d "{\"prompt\": \"$prompt\"}" |
		sed -unE "s/^event: (tool.*|file.*|run.*|message.completed)\$/  \\1/p
			/^event: complete\$/{
				n
				h
				s/^.*\"error\": ?\"(([^\"\\\\]|\\\\.)*)\".*$/\1/w $why
				g
				s/.*\"status\": ?\"([a-z_]+)\".*/\\1/w $ended
				s/^/  complete: /p
			}"
	if [ "$(cat "$ended")" != succeeded ]; then
		echo "the run did not succeed: $(head -n 1 "$why" | cut -c 1-280)" >&2
		exit 1
	fi
done

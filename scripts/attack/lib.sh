# Shared by the attacks in this folder; source it. Each attack runs against a binary
# ($THOLE, default bin/thole). If every attempt was refused, it prints "held" and exits
# with 0; if one worked, it prints "broken: …" and exits with 1.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
THOLE=${THOLE:-bin/thole}
work=$(mktemp -d)
store=sqlite:$work/thole.db
url=
server_pid=
trap 'stop; rm -rf "$work"' EXIT

# start [FLAG…]: serves $store on a free loopback port and sets $url.
start() {
	: >"$work/out" # to be read before the server begins
	"$THOLE" serve --store "$store" --listen 127.0.0.1:0 "$@" >"$work/out" 2>"$work/log" &
	server_pid=$!
	for _ in $(seq 300); do
		url=$(sed -n 's/^listening on //p' "$work/out")
		[ -n "$url" ] && return
		kill -0 "$server_pid" 2>/dev/null || break
		sleep 0.1
	done
	cat "$work/log" >&2
	echo "the server did not start" >&2
	exit 2
}

# stop ends the server, if there is one.
stop() {
	if [ -n "$server_pid" ]; then
		kill "$server_pid" 2>/dev/null || true
		wait "$server_pid" 2>/dev/null || true
		server_pid=
	fi
}

# token NAME [FLAG…]: prints the secret of a new token: token eve --grant 'project:c=admin' --actor user:eve
token() { "$THOLE" token create "$@" --store "$store" | grep -o 'tok_[A-Za-z0-9_.-]*\.[A-Za-z0-9_-]*' | head -1; }

# call TOKEN METHOD PATH [CURL ARGUMENT…]: sets $status and $body.
call() {
	local secret=$1 method=$2 path=$3
	shift 3
	status=$(curl -sS -o "$work/body" -w '%{http_code}' --max-time 30 -X "$method" \
		-H "Authorization: Bearer $secret" -H 'Content-Type: application/json' "$@" "$url$path")
	body=$(cat "$work/body")
}

# backend TOKEN PATH HEAD [VALUES]: sends a message to /v1/backend.
changes=0
backend() {
	local instance
	instance=$(curl -sS -H "Authorization: Bearer $1" "$url/v1/backend" | jq -r .instance)
	changes=$((changes + 1))
	printf '%s\n%s' "$3" "${4-}" >"$work/message"
	status=$(curl -sS -o "$work/body" -w '%{http_code}' --max-time 30 -H "Authorization: Bearer $1" -H "Thole-Instance: $instance" \
		-H "Thole-Change: eve$changes 1 1" --data-binary @"$work/message" "$url$2")
}

broken=0
# broken TEXT: records an attempt that worked.
broken() {
	echo "broken: $*"
	broken=1
}

# verdict ends the script.
verdict() {
	[ "$broken" = 0 ] && echo held
	exit "$broken"
}

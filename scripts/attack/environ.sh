#!/usr/bin/env bash
# A model has Bash look for the secrets of the server that runs it: in the environment,
# memory, files and command lines of its ancestors, in their files on disk, and by signals
# and limits. This script knows the secrets, so it detects a leak.
. "$(dirname "$0")/lib.sh"

mkdir -p "$work/p" "$work/state" "$work/tmp"
store=sqlite:$work/state/thole.db
secret=leak-$RANDOM$RANDOM
echo "$secret-file" >"$work/state/token"
# A literal block needs no quotes in YAML. $PPID is the supervisor; its ancestors
# are the server and this shell.
cat >"$work/probe.sh" <<'PROBE'
env | sed 's/^/env: /'
p=$$
for _ in 1 2 3 4 5 6; do
	p=$(awk '/^PPid/{print $2}' /proc/$p/status 2>/dev/null) || break
	[ -n "$p" ] && [ "$p" != 0 ] || break
	tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | sed 's/^/environ: /'
	tr '\0' '\n' <"/proc/$p/cmdline" 2>/dev/null | sed 's/^/cmdline: /'
	head -c 100 "/proc/$p/maps" 2>/dev/null | sed 's/^/maps-readable: /'
	readlink "/proc/$p/fd"/* 2>/dev/null | sed 's/^/fd-readable: /' | head -1
done
for f in /proc/[0-9]*; do
	tr '\0' '\n' <"$f/environ" 2>/dev/null | grep leak- | sed 's/^/environ: /'
	tr '\0' '\n' <"$f/cmdline" 2>/dev/null | grep leak- | sed 's/^/cmdline: /'
done
for pid in $PPID SERVER; do
	cat "/proc/$pid/environ" 2>/dev/null | tr '\0' '\n' | sed 's/^/environ: /'
	kill -0 "$pid" 2>/dev/null && echo "signal: $pid can be signalled"
done
prlimit --pid "$PPID" --nofile 2>/dev/null | sed 's/^/limits: /'
cat STATE/token 2>/dev/null | sed 's/^/store: /'
head -c 15 STATE/thole.db 2>/dev/null | tr -d '\0' | sed 's/^/store-readable: /'
(echo x >>STATE/spoilt) 2>/dev/null && echo "store-writable: STATE"
{ cat <&9; } 2>/dev/null | sed 's/^/inherited: /'
for fd in $(seq 3 9) 11 12; do { cat <&$fd >/dev/null; } 2>/dev/null && echo "inherited: descriptor $fd"; done
true
PROBE
sed -i "s#STATE#$work/state#" "$work/probe.sh"
{
	echo 'turns:'
	echo '  - prompt: Go'
	echo '    steps:'
	echo '      - tool_calls:'
	echo '          - name: Bash'
	echo '            input:'
	echo '              command: ". ./probe.sh"'
	echo '      - text: Done.'
} >"$work/script.yaml"

TMPDIR=$work/tmp OPENAI_API_KEY=$secret-key THOLE_TOKEN=$secret-token AWS_SECRET_ACCESS_KEY=$secret-aws DATABASE_URL=$secret-url \
	"$THOLE" dev --store "user:*=sqlite:$work/state/user.db?password=$secret-dsn" --store "*=$store" \
	--dir "$work/p" --model "script:$work/script.yaml" --listen 127.0.0.1:0 >"$work/out" 2>"$work/log" 9<"$work/state/token" &
server_pid=$!
for _ in $(seq 300); do
	url=$(sed -n 's/^listening on //p' "$work/out")
	[ -n "$url" ] && break
	kill -0 "$server_pid" 2>/dev/null || { cat "$work/log" >&2; exit 2; }
	sleep 0.1
done
sed "s/SERVER/$server_pid/" "$work/probe.sh" >"$work/p/probe.sh"
grep -i 'bash ' "$work/out" || broken "the start-up lines do not say what Bash may do"
tried=(environ:$secret "env:[^n]*$secret" cmdline:$secret maps-readable: fd-readable: inherited:)
confined=(signal: limits: store: store-readable: store-writable:)
if grep -q 'Bash has the rights of this process' "$work/out"; then
	echo "not tried, for commands are not confined here: ${confined[*]}"
else
	tried+=("${confined[@]}")
fi

call x POST /v1/spaces/project:p/threads --data '{}'
thread=$(sed -n 's/.*"id":"\(thrd_[^"]*\)".*/\1/p' "$work/body" | head -1)
call x POST "/v1/spaces/project:p/threads/$thread/runs" --data '{"prompt":"Go"}'
run=$(sed -n 's/.*"id":"\(run_[^"]*\)".*/\1/p' "$work/body" | head -1)
for _ in $(seq 300); do
	call x GET "/v1/spaces/project:p/threads/$thread/runs/$run"
	case $body in *'"status":"succeeded"'* | *'"status":"failed"'*) break ;; esac
	sleep 0.1
done
call x GET "/v1/spaces/project:p/threads/$thread/messages"
case $body in *'env: PATH='*) ;; *)
	echo "the probe did not run: $body" >&2
	exit 2
	;;
esac
for what in "${tried[@]}"; do
	found=$(printf '%b' "${body//\\\\/\\}" | grep -E "^${what%%:*}: .*${what#*:}" | sort -u | head -4 | tr '\n' ';') || true
	[ -z "$found" ] || broken "$found"
done
verdict

#!/usr/bin/env bash
# Records whose expiry might never end: with a time before all clocks, with names of
# records that the server itself ends, and in a cycle. They must neither keep other
# records from expiring nor the server busy.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
set +e # an attempt that fails is judged, not fatal

start
eve=$(token eve --grant 'project:c=admin' --actor user:eve)
bob=$(token bob --grant 'project:b=write' --actor user:bob)
c=/v1/spaces/project:c
b=/v1/spaces/project:b

json() { grep -o "\"$1\":\"[^\"]*\"" <<<"$body" | head -1 | cut -d'"' -f4; }
record() { call "$eve" POST "$c/commits" -d "{\"writes\":[$1]}" --max-time 5; }
spent() { awk '{print $14 + $15}' "/proc/$server_pid/stat"; } # in hundredths of a second

# others WHAT: somebody else's value with a ttl of one second still expires, with its
# event, and then the server is idle.
others() {
	local before
	n=$((n + 1))
	call "$bob" PUT "$b/kv/n/k$n?ttl=1" -d '{"data":1}'
	[ "$status" = 200 ] || broken "$1: another space: set: $status"
	for _ in $(seq 60); do
		call "$bob" GET "$b/events?types=kv.expired&limit=100"
		grep -q "\"k$n\"" <<<"$body" && break
		sleep 0.1
	done
	grep -q "\"k$n\"" <<<"$body" || broken "$1: a value of one second in another space did not end within six"
	before=$(spent)
	sleep 2
	[ $(($(spent) - before)) -lt 100 ] || broken "$1: the server is busy although nobody asks for anything"
}
n=0

for expires in 0001-01-01T00:00:00Z 0001-01-01T00:00:00.000001Z 1969-12-31T23:59:59Z 1970-01-01T00:00:00Z; do
	record "{\"key\":\"app/$expires\",\"value\":1,\"expires\":\"$expires\",\"notify\":true}"
	[ "$status" = 201 ] || continue
	record "{\"key\":\"app/$expires\",\"value\":2}"
	[ "$status" = 201 ] || broken "a record that ended at $expires cannot be written again: $status"
done
others "times"

now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
soon=$(date -u -d '+1 second' +%Y-%m-%dT%H:%M:%SZ)
call "$eve" POST "$c/threads" -d '{}' && thread=$(json id)
call "$eve" POST "$c/threads/$thread/runs" -d '{"prompt":"1","agent":"a"}' && run=$(json id)
for key in thread-gone/x "run/$run/cancelling" "run/$thread/thread-gone" erased/x upload/x "thread/$thread" "run/$run"; do
	backend "$eve" /v1/backend/commit '{"batch":[{"space":"project:c","now":"'$now'","writes":[{"key":"'$key'","expires":"'$soon'","notify":true,"bytes":4}]}]}' null
	echo "a record $key: $status"
	record "{\"key\":\"$key\",\"value\":null,\"expires\":\"$soon\",\"notify\":true}"
done
sleep 1
others "what the server ends itself"

call "$eve" POST "$c/threads" -d '{}' && thread=$(json id)
call "$eve" POST "$c/threads/$thread/runs" -d '{"prompt":"1","agent":"a"}'
call "$eve" POST /v1/runs/claim -d '{"spaces":["project:c"],"agent":"a"}' && run=$(json id)
record "{\"key\":\"run/$run/child/$run\",\"value\":{}}"
record "{\"key\":\"thread/$thread/child/$thread\",\"value\":{}}"
call "$eve" POST "$c/threads/$thread/runs/$run/cancel" -d '{}' --max-time 5
[ "$status" != 000 ] || broken "the cancel of a run that is its own child has no end"
others "a run that is its own child"
call "$eve" DELETE "$c/threads/$thread" --max-time 5
[ "$status" != 000 ] || broken "the end of a thread that is its own child has none"
others "a thread that is its own child"

stop
verdict

#!/usr/bin/env bash
# Names that are too long, or hostile, through every operation that takes a name. A name
# that is accepted must block neither the thing that it names nor anybody else: runs still
# finish, are cancelled and leave the queue, and other records still expire.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
set +e # an attempt that fails is judged, not fatal

start
eve=$(token eve --grant 'project:c=write' --actor user:eve)
bob=$(token bob --grant 'project:b=write' --actor user:bob)
c=/v1/spaces/project:c
b=/v1/spaces/project:b

json() { grep -o "\"$1\":\"[^\"]*\"" <<<"$body" | head -1 | cut -d'"' -f4; }
rep() { printf '%0.s'"${1/\%/%%}" $(seq "$2"); }
escape() { sed 's/%/%25/g; s,/,%2F,g; s/世/%E4%B8%96/g' <<<"$1"; }

# want STATUS… : the last call must have returned one of them.
want() {
	local what=$1
	shift
	for s in "$@"; do [ "$status" = "$s" ] && return 0; done
	broken "$what: $status $(sed 's/.*"detail":"\([^"]*\).*/\1/' <<<"$body" | cut -c1-110)"
}

# claim AGENT: sets $run and $fence of the claimed run; false: no run waits.
claim() {
	call "$eve" POST /v1/runs/claim -d "{\"spaces\":[\"project:c\"],\"agent\":\"$1\"}"
	[ "$status" = 200 ] || return 1
	run=$(json id) fence=$(json token)
}
finish() { call "$eve" POST "$c/threads/$thread/runs/$run/finish" -H "Thole-Fence: $fence" -d '{"status":"succeeded"}'; }
new_thread() { call "$eve" POST "$c/threads" -d "${1:-"{}"}" && thread=$(json id); }
new_run() { call "$eve" POST "$c/threads/$thread/runs" -d "$1"; }

names=()
for n in 40 60 70 100 130 190 205 215 250 256 300 5000; do names+=("$(rep a "$n")"); done
for n in 20 22 25 60 68 72 80 100; do names+=("$(rep / "$n")" "$(rep % "$n")" "$(rep 世 "$n")"); done
names+=('a\nb' 'a\u0000' '\u007f' 'a\u0085b') # as JSON

for name in "${names[@]}"; do
	short="$(cut -c1-12 <<<"$name")… (${#name} characters)"
	# An agent of a queued run, of a thread, and the worker that takes a run.
	for how in run thread worker; do
		new_thread
		new_run '{"prompt":"1","agent":"a"}'
		want "start a run" 201
		case $how in
		run) new_run "{\"prompt\":\"2\",\"agent\":\"$name\"}" ;;
		thread)
			call "$eve" PATCH "$c/threads/$thread" -d "{\"assistant\":\"$name\"}"
			new_run '{"prompt":"2"}'
			;;
		worker) new_run '{"prompt":"2","agent":"a"}' ;;
		esac
		second=$(json id)
		new_run '{"prompt":"3","agent":"a"}'
		if [ "$status" = 201 ] && claim a; then
			finish
			want "$how $short: finish the run before it" 200
		fi
		if [ -n "$second" ]; then
			call "$eve" DELETE "$c/threads/$thread/queue/$second"
			want "$how $short: take it out of the queue" 204 409
		fi
		if claim a; then
			finish
			want "$how $short: finish the run behind it" 200
		fi
		call "$eve" DELETE "$c/threads/$thread"
	done
	# A worker's name, which becomes the agent of a run that has none.
	new_thread
	new_run '{"prompt":"1"}'
	call "$eve" POST /v1/runs/claim -d "{\"spaces\":[\"project:c\"],\"worker\":\"$name\"}"
	if [ "$status" = 200 ]; then
		run=$(json id) fence=$(json token)
		finish
		want "worker $short: finish" 200
	elif claim ""; then
		finish
		want "worker $short: finish by another" 200
	fi
	# A model, a signal, a todo, a title.
	new_thread
	new_run "{\"prompt\":\"1\",\"agent\":\"a\",\"model\":\"$name\"}"
	[ "$status" = 201 ] || new_run '{"prompt":"1","agent":"a"}'
	if claim a; then
		call "$eve" POST "$c/threads/$thread/runs/$run/signals" -d "{\"name\":\"$name\"}"
		call "$eve" POST "$c/threads/$thread/todos" -d "{\"id\":\"$name\",\"content\":\"x\"}"
		call "$eve" POST "$c/decisions" -d "{\"action\":\"x\",\"run\":\"$run\",\"refs\":[\"$name\"]}"
		finish
		want "model, signal, todo, ref $short: finish" 200
	fi
	# A lock and its owner: whoever comes next must be able to wait.
	for holder in "\"name\":\"$name\",\"owner\":\"o\"" "\"name\":\"l\",\"owner\":\"$name\"" "\"name\":\"$name\",\"owner\":\"o\",\"mode\":\"intent\"" "\"name\":\"l\",\"owner\":\"$name\",\"mode\":\"intent\""; do
		call "$eve" POST "$c/locks" -d "{$holder,\"ttl\":1}"
		[ "$status" = 201 ] || continue
		fence=$(json token) lock=$(sed -n 's/.*"name":\("[^"]*"\).*/\1/p' <<<"{$holder}")
		call "$eve" POST "$c/locks" -d "{\"name\":$lock,\"owner\":\"next\",\"wait\":0.02}"
		want "lock $short: wait for it" 201 409
		name_in_path=$(escape "$(tr -d '"' <<<"$lock")")
		case $lock in *'\'*) continue ;; esac
		call "$eve" DELETE "$c/locks/$name_in_path" -H "Thole-Fence: $fence"
		want "lock $short: release" 204 409
	done
	# A key and a document in a URL.
	case $name in *'\'*) continue ;; esac
	path=$(escape "$name")
	for place in "kv/$path/k" "kv/n/$path"; do
		call "$eve" PUT "$c/$place?ttl=1" -d '{"data":1}'
		if [ "$status" = 200 ]; then
			call "$eve" GET "$c/kv/${place#kv/}"
			want "$place: read" 200
		fi
	done
	call "$eve" PUT "$c/documents/$path" -d '{"value":1}'
	if [ "$status" = 200 ]; then
		call "$eve" DELETE "$c/documents/$path"
		want "document $short: delete" 204
	fi
done

# Others are not affected: a value with a ttl of one second expires within a few seconds,
# with its event.
call "$bob" PUT "$b/kv/n/k?ttl=1" -d '{"data":1}'
want "another space: set" 200
for _ in $(seq 40); do
	call "$bob" GET "$b/events?types=kv.expired"
	grep -q kv.expired <<<"$body" && break
	sleep 0.1
done
grep -q kv.expired <<<"$body" || broken "another space: a value of one second did not end within four"

stop
if grep -q "sweep failed" "$work/log"; then broken "the sweep failed: $(grep -m1 "sweep failed" "$work/log" | cut -c1-200)"; fi
verdict

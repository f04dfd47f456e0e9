#!/bin/bash
# Private threads: a stranger with a read token, then a write token, of the same space
# guesses the fence of a run, claims the run, compares the answers about hidden things
# with those about things that do not exist, ends records above and beside them, uses a
# fence elsewhere, and watches through filters. See lib.sh.
. "$(dirname "$0")/lib.sh"

owner=$(token owner --grant 'project:a=write' --actor user:1)
reader=$(token reader --grant 'project:a=read' --actor user:2)
writer=$(token writer --grant 'project:a=write' --actor user:2)
root=$(token root --grant '*=admin' --actor user:root)
start
space=/v1/spaces/project:a

call "$owner" POST $space/threads -d '{"visibility":"private"}'
private=$(jq -r .id <<<"$body")
call "$owner" POST $space/threads -d '{}'
public=$(jq -r .id <<<"$body")
call "$owner" POST "$space/threads/$private/runs" -d '{"prompt":"our secret","agent":"coder"}'
call "$owner" POST /v1/runs/claim -d '{"spaces":["project:a"],"agent":"coder"}'
run=$(jq -r .run.id <<<"$body") turn=$(jq -r .turn <<<"$body")
call "$owner" POST $space/locks -d '{"name":"f","owner":"'"$run"'/blk_1"}'
call "$owner" POST $space/decisions -d '{"action":"our plan","run":"'"$run"'"}'
decision=$(jq -r .id <<<"$body")
call "$owner" POST "$space/threads/$private/runs" -d '{"prompt":"our secret","agent":"helper"}'
waiting=$(jq -r .id <<<"$body")

# leaks WAY: the answer must contain nothing private.
leaks() {
	for id in "$private" "$run" "$turn" "$decision" "$waiting" "our secret" "our plan"; do
		[ -n "$id" ] || continue
		case $body in *"$id"*)
			broken "$1 ($status) shows $id"
			return
			;;
		esac
	done
	echo "nothing in: $1 ($status)"
}

# must WAY STATUS…: the answer must have one of these statuses.
must() {
	local way=$1
	shift
	case " $* " in
	*" $status "*) echo "refused: $way ($status)" ;;
	*) broken "$way: answered with $status: ${body:0:100}" ;;
	esac
}

# The position of the claim is within a few of the head; try them all.
call "$root" GET "$space/events?order=desc&limit=1"
head=$(jq -r '.items[0].position' <<<"$body")
encode() { printf %s "$1" | base64 -w0 | tr '+/' '-_' | tr -d '='; }
for access in reader writer; do
	for seq in $(seq 1 "$((10#${head#*-}))"); do
		fence=$(encode "run/$run/owner@${head%-*}-$(printf %016d "$seq")")
		for proof in "$fence" "$fence.AAAAAAAAAAAAAAAAAAAAAA"; do
			call "${!access}" GET "$space/threads/$private/messages" -H "Thole-Fence: $proof"
			[ "$status" = 404 ] || [ "$status" = 400 ] || broken "$access: messages under a guessed fence: $status: ${body:0:100}"
			for path in "runs/$run/heartbeat" "turns/$turn/blocks" "runs/$run/finish"; do
				data='{}'
				[ "$path" = "turns/$turn/blocks" ] && data='{"type":"text","content":"forged"}'
				[ "$path" = "runs/$run/finish" ] && data='{"status":"failed"}'
				call "${!access}" POST "$space/threads/$private/$path" -H "Thole-Fence: $proof" -d "$data"
				case $status in 2*) broken "$access: ${path%%/*}…/${path##*/} under a guessed fence: $status" ;; esac
			done
		done
	done
	for name in "$run" "$waiting"; do
		call "${!access}" POST "$space/threads/$private/runs/$name/signals" -d '{"name":"x"}'
		must "$access: a signal" 403 404
	done
	call "${!access}" POST /v1/runs/claim -d '{"spaces":["project:a"],"agent":"helper"}'
	must "$access: a claim of the waiting run" 403 404
	leaks "$access: a claim"
	for path in threads events locks locks/f decisions "decisions?run=$run" decisions/index; do
		call "${!access}" GET "$space/$path"
		leaks "$access: ${path/$run/RUN}"
	done
done

# Nothing distinguishes a hidden thing from one that does not exist.
none() { echo "${1%????????}00000000"; }
same() { # METHOD PATH [BODY]: with THREAD, RUN, TURN, DECISION
	local answer=() ids i data way
	for ids in "$private $run $turn $decision" "$(none "$private") $(none "$run") $(none "$turn") $(none "$decision")"; do
		read -r -a i <<<"$ids"
		way=$(sed "s/THREAD/${i[0]}/;s/RUN/${i[1]}/;s/TURN/${i[2]}/;s/DECISION/${i[3]}/" <<<"$2")
		data=$(sed "s/THREAD/${i[0]}/;s/RUN/${i[1]}/" <<<"${3-}")
		call "$writer" "$1" "$way" ${data:+-d "$data"}
		answer+=("$status $(sed -E "s/sess_[0-9a-f]+//;s/${i[0]}/THREAD/g;s/${i[1]}/RUN/g;s/${i[3]}/DECISION/g" <<<"$body")")
	done
	compared=$((compared + 1))
	[ "${answer[0]}" = "${answer[1]}" ] || broken "$1 $2 ${3-}: private: ${answer[0]:0:200} does not exist: ${answer[1]:0:200}"
}
compared=0
while read -r method path; do
	path=$(sed "s/{space}/project:a/;s/{thread}/THREAD/;s/{run}/RUN/;s/{turn}/TURN/;s/{\([^}]*\)}/\1_1/g" <<<"$path")
	if [ "$method" = GET ]; then same GET "$path"; else same "$method" "$path" '{}'; fi
done < <(curl -sS "$url/openapi.json" -H "Authorization: Bearer $root" | jq -r '.paths | to_entries[] | .key as $p | .value | keys[] | select($p | contains("{thread}")) | (ascii_upcase + " " + $p)')
for path in "runs/RUN" "runs?cursor=RUN"; do same GET "$space/threads/$public/$path"; done
for verb in cancel signals finish; do same POST "$space/threads/$public/runs/RUN/$verb" '{"name":"x"}'; done
same PATCH "$space/threads/$public/queue/RUN" '{"prompt":"x"}'
same DELETE "$space/threads/$public/queue/RUN"
same POST "$space/threads/$public/runs" '{"prompt":"x","parent":"RUN"}'
same POST "$space/threads/$public/runs" '{"prompt":"x","resumed_from":"RUN"}'
same POST $space/decisions '{"action":"x","thread":"THREAD"}'
same POST $space/decisions '{"action":"x","run":"RUN"}'
same GET $space/decisions/DECISION
same POST $space/decisions/DECISION/outcome '{"outcome":"done"}'
echo "compared $compared operations"

# Records that an application keeps for a thread: a record above them that expires with
# notify would delete them all and disclose them to the space.
call "$owner" POST $space/commits -d '{"writes":[{"key":"app/thread/'"$private"'/notes","value":"our secret"}]}'
for key in app/thread app/thread/ app/thread/x "app/thread/$private" "app/thread/$private/notes"; do
	call "$writer" POST $space/commits -d '{"writes":[{"key":"'"$key"'","value":1,"expires_at":"2020-01-01T00:00:00Z","notify":true}]}'
	must "writer: an expiring record ${key/$private/PRIVATE}" 400 403 404
	call "$writer" POST $space/commits -d '{"events":[{"type":"x.y","stream":"'"$key"'"}]}'
	must "writer: an event in ${key/$private/PRIVATE}" 400 403 404
done
for path in events "events?types=app.*" "events?stream=app/thread"; do
	call "$writer" GET "$space/$path"
	leaks "writer: $path"
done

# With run_scope user the owner has one active run over all threads; a stranger starts
# another one in an open thread.
call "$owner" POST $space/threads -d '{"visibility":"private","run_scope":"user","assistant":"x"}'
hidden=$(jq -r .id <<<"$body")
call "$owner" POST $space/threads -d '{"run_scope":"user","assistant":"x"}'
open=$(jq -r .id <<<"$body")
call "$owner" POST "$space/threads/$hidden/runs" -d '{"prompt":"our secret","agent":"scoped"}'
scoped=$(jq -r .id <<<"$body")
for policy in reject enqueue interrupt rollback; do
	call "$writer" POST "$space/threads/$open/runs" -d '{"prompt":"x","agent":"scoped","policy":"'$policy'"}'
	leaks "writer: a run behind a private one, $policy"
	call "$owner" GET "$space/threads/$hidden/runs/$scoped"
	[ "$(jq -r '.status + (.cancel // {} | tojson)' <<<"$body")" = 'queued{}' ] || broken "writer: $policy in an open thread ended a private run: ${body:0:200}"
	call "$owner" GET "$space/threads/$hidden/runs"
	case $body in *"$scoped"*) ;; *) broken "writer: $policy in an open thread removed a private run" ;; esac
done

# A worker's fence opens only the thread of its run, and only for a worker's operations.
worker=$(token worker --grant 'project:a=work' --actor agent:worker) &&
	mixed=$(token mixed --grant 'project:a=write' --grant "project:a=work@$public" --actor user:2) ||
	{ broken "there is no grant for workers" && worker=$writer mixed=$writer; }
call "$owner" POST "$space/threads" -d '{"visibility":"private"}'
second=$(jq -r .id <<<"$body")
call "$owner" POST "$space/threads/$second/messages" -d '{"role":"user","blocks":[{"type":"text","content":"our secret"}]}'
call "$owner" POST "$space/threads/$second/runs" -d '{"prompt":"our secret","agent":"mixed"}'
call "$mixed" POST /v1/runs/claim -d '{"spaces":["project:a"],"agent":"mixed"}'
must "write on the space and work on one thread: a claim in another" 403 404
call "$owner" POST "$space/threads" -d '{"visibility":"private"}'
third=$(jq -r .id <<<"$body")
call "$owner" POST "$space/threads/$third/runs" -d '{"prompt":"x","agent":"third"}'
call "$worker" POST /v1/runs/claim -d '{"spaces":["project:a"],"agent":"third"}'
[ "$status" = 200 ] || broken "the worker's claim is answered with $status"
fence=$(jq -r .token <<<"$body")
for thread in "$private" "$second" "$third"; do
	name=another
	[ "$thread" = "$third" ] && name=its
	for access in worker writer mixed; do
		if [ "$name" = another ]; then
			for path in '' /messages /turns /runs /events /state /todos; do
				call "${!access}" GET "$space/threads/$thread$path" -H "Thole-Fence: $fence"
				must "$access: GET $name private thread$path under a worker's fence" 403 404
			done
			call "${!access}" POST "$space/threads/$thread/messages" -H "Thole-Fence: $fence" -d '{"role":"user","blocks":[{"type":"text","content":"forged"}]}'
			must "$access: a message in $name private thread under a worker's fence" 403 404
		fi
		for request in 'PATCH {"visibility":"space"}' 'PATCH {"title":"forged"}' DELETE; do
			read -r method data <<<"$request"
			call "${!access}" "$method" "$space/threads/$thread" -H "Thole-Fence: $fence" ${data:+-d "$data"}
			must "$access: $request of $name private thread under a worker's fence" 403 404
		done
	done
done

# A thread becomes private while strangers watch it with filters that exclude the change
# itself.
call "$owner" POST "$space/threads" -d '{}'
turning=$(jq -r .id <<<"$body")
filters=("$space/events?types=message.*,app.*" "$space/events?channel=sync"
	"$space/events?stream=thread/$turning,app/events&types=message.*,app.*" "$space/events" "/v1/events?watch=project:a&types=message.*,app.*" "/v1/events?watch=project:a&channel=sync")
watches=()
for i in "${!filters[@]}"; do
	curl -sSN --max-time 60 -H "Authorization: Bearer $writer" -H 'Accept: text/event-stream' "$url${filters[$i]}" >"$work/watch$i" 2>/dev/null &
	watches+=($!)
done
# heard MARK: waits until every watch that was not refused has received MARK.
heard() {
	for _ in $(seq 100); do
		local waiting=0
		for i in "${!filters[@]}"; do
			grep -qE "$1|\"status\":4" "$work/watch$i" || waiting=1
		done
		[ "$waiting" = 0 ] && return
		sleep 0.1
		[ "$1" = begun ] && call "$owner" POST "$space/events" -d '{"type":"app.note","data":"begun"}' # one may have begun late
	done
	broken "a watch did not hear \"$1\""
}
heard begun
call "$owner" POST "$space/threads/$turning/messages" -d '{"role":"user","blocks":[{"type":"text","content":"open still"}]}'
call "$owner" PATCH "$space/threads/$turning" -d '{"visibility":"private"}'
call "$owner" POST "$space/threads/$turning/messages" -d '{"role":"user","blocks":[{"type":"text","content":"our secret"}]}'
call "$owner" POST "$space/events" -d '{"type":"app.note","data":"the end"}'
heard 'the end'
for i in "${!filters[@]}"; do
	status=stream body=$(cat "$work/watch$i")
	leaks "writer: a watch of ${filters[$i]/$turning/THREAD}"
done
kill "${watches[@]}" 2>/dev/null || true

# Not everything is refused.
call "$owner" GET "$space/threads/$private/messages"
[ "$status" = 200 ] || broken "the owner is answered with $status"
verdict

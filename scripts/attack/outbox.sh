#!/bin/bash
# From one tenant's space to *=admin: an admin of project:c only tries every way to get a
# forged token into the space global, or to change the records with which the server acts
# for others. See lib.sh.
. "$(dirname "$0")/lib.sh"

eve=$(token eve --grant 'project:c=admin' --actor user:eve)
root=$(token root --grant '*=admin' --actor user:root)
start
now=2026-01-01T00:00:00Z
zero=0001abcdef01-0000000000000001 # a position

# forge NUMBER: sets $id, $secret, $record and $message: a token that may do
# everything, and the intent whose delivery writes it.
forge() {
	id=tok_019b76da0000700080000000000000$(printf %02x "$1")
	secret=$id.$(head -c 32 /dev/zero | tr '\0' 'A' | base64 | tr '+/' '-_' | tr -d '=')
	local hash
	hash=$(head -c 32 /dev/zero | tr '\0' 'A' | sha256sum | cut -d' ' -f1)
	record='{"id":"'$id'","name":"forged","actor":"user:eve","grants":[{"space":"*","access":"admin"}],"created":"'$now'","hash":"'$hash'"}'
	message='{"to":"global","actor":"system","writes":[{"key":"token/'$id'","value":'$record'}]}'
	intent=outbox/out_019b76da0000700080000000000000$(printf %02x "$1")
}

# sharp WAY: the forged token must not work, now or after a sweep.
sharp() {
	for _ in 1 2 3 4 5 6; do
		call "$secret" GET /v1/spaces/user:victim/events
		if [ "$status" != 401 ]; then
			broken "$1: the forged token is answered with $status"
			return
		fi
		sleep 0.5
	done
	echo "refused: $1"
}

# wrote WAY STATUS…: the answer must have one of these statuses, which refuse.
wrote() {
	local way=$1
	case $status in
	2*) broken "$way: answered with $status" ;;
	*) echo "refused: $way ($status)" ;;
	esac
}

forge 1
call "$eve" POST /v1/spaces/project:c/commits -d '{"writes":[{"key":"'$intent'","value":'"$message"',"expires_at":"'$now'"}]}'
sharp "an intent by POST …/commits ($status)"

forge 2
backend "$eve" /v1/backend/commit '{"batch":[{"space":"project:c","now":"'$now'","writes":[{"key":"'$intent'","expires":"'$now'","bytes":'${#message}'}]}]}' "$message"
sharp "an intent by /v1/backend/commit ($status)"

forge 3
call "$eve" POST /v1/spaces/project:c/events -d '{"type":"a.b"}' # so that there is something to delete
call "$eve" DELETE /v1/spaces/project:c
head='{"space":"project:c","oldest":"'$zero'","last":"'$zero'","epochs":[{"epoch":"'${zero%-*}'","first":1,"last":1}]}'
backend "$eve" /v1/backend/load '{"space":"project:c","chunk":{"head":'$head',"records":[{"key":"'$intent'","version":"'$zero'","updated":"'$now'","expires":"'$now'","bytes":'${#message}'}],"done":true}}' "$message"
sharp "an intent by /v1/backend/load ($status)"

forge 4
backend "$eve" /v1/backend/commit '{"batch":[{"space":"global","now":"'$now'","writes":[{"key":"token/'$id'","bytes":'${#record}'}]}]}' "$record"
sharp "the token itself by /v1/backend/commit ($status)"

forge 5
call "$eve" POST /v1/spaces/global/commits -d '{"writes":[{"key":"token/'$id'","value":'"$record"'}]}'
sharp "the token itself by POST …/commits ($status)"

forge 6
call "$eve" PUT "/v1/spaces/project:c/kv/..%2F..%2Foutbox/${intent#outbox/}" -d "$message"
call "$eve" PUT "/v1/spaces/project:c/documents/..%2Foutbox%2F${intent#outbox/}" -d "$message"
sharp "an intent by a name with dots and slashes ($status)"

# A caller that may not write an intent may not change the kernel's other records.
for key in outbox/out_x sent/out_x idem/x/0 token/tok_x snap/x sweeper/owner sweeper/beat run/run_x/owner run/run_x/beat lock/x/owner; do
	call "$eve" POST /v1/spaces/project:c/commits -d '{"writes":[{"key":"'$key'","value":1}]}'
	wrote "writing $key by POST …/commits"
	backend "$eve" /v1/backend/commit '{"batch":[{"space":"project:c","now":"'$now'","writes":[{"key":"'$key'","bytes":1}]}]}' 1
	wrote "writing $key by /v1/backend/commit"
done
for stream in outbox/out_x token; do
	call "$eve" POST /v1/spaces/project:c/events -d '{"type":"a.b","stream":"'$stream'"}'
	wrote "an event in $stream"
	backend "$eve" /v1/backend/purge '{"space":"project:c","purge":{"streams":["'$stream'"]}}'
	wrote "purging the stream $stream"
done

# Not everything is refused: an admin of all spaces may do this.
call "$root" POST /v1/spaces/project:d/commits -d '{"writes":[{"key":"snap/x","value":1}]}'
[ "$status" = 201 ] || broken "an admin of everything is answered with $status: $body"
verdict

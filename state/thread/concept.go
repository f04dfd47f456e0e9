package thread

import (
	"time"

	"github.com/thole-dev/thole"
)

// Name is the concept's name.
const Name = "thread"

const stream = "thread/{thread}"

var streams = []string{stream}

// Concept declares the events and records of threads.
var Concept = &thole.Concept{
	Name:         Name,
	About:        "conversations: what was said and done, in order",
	Conversation: true,
	Events: []thole.EventType{
		{Type: "thread.created", Data: Head{}, Upcast: createdBefore, Streams: streams, Names: true, ChangesMayKnow: true, About: "a thread was created"},
		{Type: "thread.updated", Data: Patch{}, Streams: streams, Names: true, ChangesMayKnow: true, About: "the head changed; `metadata` is a merge patch"},
		{Type: "thread.compacted", Data: Compacted{}, Streams: streams, Names: true, About: "a summary replaces the turns up to `upto`"},
		{Type: "thread.rewound", Data: Rewound{}, Streams: streams, Names: true, About: "these turns were removed from the thread's history"},
		{Type: "thread.destroyed", Data: thole.Expired{}, Streams: streams, Names: true,
			About: "the thread was deleted with all that belongs to it; with `cut` the final state does not fit, and `value` is null"},
		{Type: "thread.expired", Data: thole.Expired{}, Streams: streams, Names: true, About: "the thread's `ttl` ran out"},
		{Type: "message.added", Data: Added{}, Streams: streams,
			About: "a message was posted, or a run began to answer (`reply` is the id of the message that it will write), or both"},
		{Type: "message.updated", Data: Updated{}, Streams: streams, About: "a block is new in the turn's response, or replaces the one with its id"},
		{Type: "message.delta", Data: Delta{}, Streams: streams, Live: thole.AlsoLive,
			About: "text is appended to a block at `offset` (UTF-8 bytes): broadcast at once, committed in chunks (≤ 100 ms or 4 KiB) with the same offsets"},
		{Type: "message.completed", Data: Completed{}, Streams: streams, About: "the response ended: `done error interrupted`"},
		{Type: "tool.started", Data: Updated{}, Upcast: toolBefore, Streams: streams, About: "a tool is about to act; the block has the call in `tool`"},
		{Type: "tool.output", Data: ToolOutput{}, Streams: streams, Live: thole.OnlyLive,
			About: "a command of the reference agent printed something; the tool's result has all of it"},
		{Type: "tool.completed", Data: Updated{}, Upcast: toolBefore, Streams: streams, About: "the tool call succeeded; the block has no `tool.input`"},
		{Type: "tool.failed", Data: Updated{}, Upcast: toolBefore, Streams: streams, About: "the tool call failed; the block has no `tool.input`"},
	},
	Records: []thole.RecordType{
		{Key: "thread/{thread}", ID: "thrd", Value: Head{}, Upcast: headBefore, Expire: expire, LivesOn: livesOn, MayKnow: mayKnow, About: "the head of a thread"},
		{Key: "thread/{thread}/turn", Value: openTurn{}, Private: true, About: "the state of the turn that a run works on"},
		{Key: "thread/{thread}/child/{child}", Private: true, About: "a sub-agent's thread"},
		{Key: "thread/{thread}/snapshot/**", Private: true, About: "snapshot of an earlier version"},
		{Key: goneKind + "/{thread}", Value: Gone{}, Expire: expireGone, Private: true, About: "a destroyed thread that is being cleaned up"},
	},
	Check: check,
}

// livesOn returns the thread's ttl.
func livesOn(rec thole.Record) time.Duration {
	var t Thread
	if rec.As(&t) != nil {
		return 0
	}
	return time.Duration(min(t.TTL, maxTTL)) * time.Second
}

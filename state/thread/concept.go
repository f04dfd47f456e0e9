package thread

import (
	"time"

	"github.com/thole-dev/thole"
)

// Name is the concept's.
const Name = "thread"

const stream = "thread/{thread}"

var streams = []string{stream}

// Concept is what threads keep and tell.
var Concept = &thole.Concept{
	Name:  Name,
	About: "conversations: what was said and done, in order",
	Events: []thole.EventType{
		{Type: "thread.created", Data: Thread{}, Upcast: createdBefore, Streams: streams, Names: true, About: "a thread begins"},
		{Type: "thread.updated", Data: Patch{}, Streams: streams, Names: true, About: "its head changes; `metadata` is a merge patch"},
		{Type: "thread.compacted", Data: Compacted{}, Streams: streams, Names: true, About: "a summary stands for the turns up to `upto`"},
		{Type: "thread.rewound", Data: Rewound{}, Streams: streams, Names: true, About: "these turns are no part of the thread any more"},
		{Type: "thread.destroyed", Data: thole.Expired{}, Streams: streams, Names: true,
			About: "it is deleted, with all that belongs to it; with `cut` the final state does not fit, and `value` is null"},
		{Type: "thread.expired", Data: thole.Expired{}, Streams: streams, Names: true, About: "its `ttl` ran out"},
		{Type: "message.added", Data: Added{}, Streams: streams,
			About: "a message is posted, or a run begins to answer (`reply` is the id of the message it will make), or both"},
		{Type: "message.updated", Data: Updated{}, Streams: streams, About: "a block is new in the turn's response, or replaces the one with its id"},
		{Type: "message.delta", Data: Delta{}, Streams: streams, Live: thole.AlsoLive,
			About: "text goes on a block at `offset` (UTF-8 bytes): broadcast at once, kept in chunks (≤ 100 ms or 4 KiB), with the same offsets"},
		{Type: "message.completed", Data: Completed{}, Streams: streams, About: "the response has ended: `done error interrupted`"},
		{Type: "tool.started", Data: Updated{}, Upcast: toolBefore, Streams: streams, About: "before a tool acts"},
		{Type: "tool.output", Data: ToolOutput{}, Streams: streams, Live: thole.OnlyLive,
			About: "a command of the reference agent prints something; the whole of it is in the result"},
		{Type: "tool.completed", Data: Updated{}, Upcast: toolBefore, Streams: streams, About: "the call ended well"},
		{Type: "tool.failed", Data: Updated{}, Upcast: toolBefore, Streams: streams, About: "it did not"},
	},
	Records: []thole.RecordType{
		{Key: "thread/{thread}", ID: "thrd", Value: Thread{}, Upcast: headBefore, Expire: expire, LivesOn: livesOn, About: "the head of a thread"},
		{Key: "thread/{thread}/turn", Value: openTurn{}, Private: true, About: "what the next step of the turn being run depends on"},
		{Key: "thread/{thread}/child/{child}", Private: true, About: "a sub-agent's thread"},
		{Key: "thread/{thread}/snapshot/**", Private: true, About: "snapshot of an earlier version"},
		{Key: goneKind + "/{thread}", Value: Gone{}, Expire: expireGrave, Private: true, About: "a thread that has ended is being buried"},
	},
}

// livesOn is the thread's ttl.
func livesOn(rec thole.Record) time.Duration {
	var t Thread
	if rec.As(&t) != nil {
		return 0
	}
	return time.Duration(min(t.TTL, maxTTL)) * time.Second
}

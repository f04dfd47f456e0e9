package thread

import (
	"encoding/json"

	"github.com/thole-dev/thole"
)

// Upcasts from before schema 2.

// createdBefore upcasts thread.created, which held the request for the thread rather
// than the thread.
func createdBefore(e thole.Event, data json.RawMessage) json.RawMessage {
	return thole.Reshape(data, func(m map[string]json.RawMessage) {
		id, ok := streamThread(e.Stream)
		if _, today := m["id"]; today || !ok {
			return
		}
		set := func(name string, v any) {
			if m[name] == nil {
				m[name], _ = json.Marshal(v) // plain values: cannot fail
			}
		}
		set("id", id)
		set("status", Idle)
		set("visibility", ForSpace)
		set("turn_count", 0)
		set("message_count", 0)
		set("created_at", e.Time)
	})
}

// toolBefore upcasts tool events, whose tool and metadata were beside the block's id,
// not in the block.
func toolBefore(e thole.Event, data json.RawMessage) json.RawMessage {
	var was struct {
		Turn  string
		Block string
		Meta  map[string]json.RawMessage
		Tool
	}
	if json.Unmarshal(data, &was) != nil { // today's data: the block is an object
		return data
	}
	b := Block{ID: was.Block, Type: ToolUse, Status: toolStatus[e.Type], Meta: was.Meta, Tool: &was.Tool}
	text, err := json.Marshal(Updated{Turn: was.Turn, Block: b})
	if err != nil {
		return data
	}
	return text
}

// headBefore upcasts a head, which named the last turn's status in other words.
func headBefore(_ thole.Record, data json.RawMessage) json.RawMessage {
	return thole.Reshape(data, func(m map[string]json.RawMessage) {
		if state, ok := m["turn_state"]; ok {
			delete(m, "turn_state")
			m["turn_status"] = map[string]json.RawMessage{`"open"`: json.RawMessage(`"` + Pending + `"`), `"run"`: json.RawMessage(`"` + Streaming + `"`)}[string(state)]
			if m["turn_status"] == nil {
				delete(m, "turn_status")
			}
		}
	})
}

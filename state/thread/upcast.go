package thread

import (
	"encoding/json"

	"github.com/thole-dev/thole"
)

// What there was before schema 2.

// createdBefore: thread.created told what was asked for, not the thread.
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
		set("turn_count", 0)
		set("message_count", 0)
		set("created_at", e.Time)
	})
}

// toolBefore: what is now in the block was beside the block's id.
func toolBefore(e thole.Event, data json.RawMessage) json.RawMessage {
	var was struct {
		Turn  string
		Block string
		Meta  map[string]json.RawMessage
		Tool
	}
	if json.Unmarshal(data, &was) != nil { // also because the block is one
		return data
	}
	b := Block{ID: was.Block, Type: ToolUse, Status: toolStatus[e.Type], Meta: was.Meta, Tool: &was.Tool}
	text, err := json.Marshal(Updated{Turn: was.Turn, Block: b})
	if err != nil {
		return data
	}
	return text
}

// headBefore: what is now the status of the last turn had words of its own.
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

package thole

import (
	"encoding/json"
	"maps"
)

// Schema is the version of the shapes of what concepts keep and tell. Events of
// their types carry it, and so do their records whose shape has changed. Those of an
// earlier version become what they would be today as they are read, here alone: by
// the functions that their types declare.
const Schema = 2

// An Upcast returns what data of an earlier schema is today. It may meet data that
// is so already, and leaves it alone. Data that it cannot read it returns as it is,
// for whoever reads it to report.
type Upcast[T Event | Record] func(of T, data json.RawMessage) json.RawMessage

// lift makes of an event of an earlier schema what it would be today. The event may
// be shared; its data is replaced, never changed.
func (cs *Concepts) lift(e *Event) {
	if e.Schema >= Schema {
		return
	}
	t := cs.events[e.Type]
	if t == nil || t.OwnSchema {
		return
	}
	if t.Upcast != nil && e.Data != nil {
		e.Data = t.Upcast(*e, e.Data)
	}
	e.Schema = Schema
}

// liftRecord is lift of a record.
func (cs *Concepts) liftRecord(r *Record) {
	if r.Schema >= Schema || r.Value == nil || !cs.upcasts[kindOf(r.Key)] {
		return
	}
	if t := cs.recordOf(r.Key); t != nil && t.Upcast != nil {
		r.Value, r.Schema = t.Upcast(*r, r.Value), Schema
	}
}

// Reshape returns data, a JSON object, after change; what is none comes back as it is.
// It is for [Upcast].
func Reshape(data json.RawMessage, change func(members map[string]json.RawMessage)) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil || members == nil {
		return data
	}
	before := maps.Clone(members)
	change(members)
	if maps.EqualFunc(before, members, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
		return data
	}
	out, err := marshal(members)
	if err != nil {
		return data
	}
	return out
}

// Renamed gives the members of a JSON object the names that they have today: from
// each key of names to its value.
func Renamed[T Event | Record](names map[string]string) Upcast[T] {
	return func(_ T, data json.RawMessage) json.RawMessage {
		return Reshape(data, func(members map[string]json.RawMessage) {
			for from, to := range names {
				if v, ok := members[from]; ok {
					delete(members, from)
					if _, taken := members[to]; !taken {
						members[to] = v
					}
				}
			}
		})
	}
}

// schema returns the schema of events that are emitted now: 0 for those of no concept.
func (cs *Concepts) schema(typ string) int {
	if t := cs.events[typ]; t != nil && !t.OwnSchema {
		return Schema
	}
	return 0
}

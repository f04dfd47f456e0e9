package thole

import (
	"encoding/json"
	"maps"

	"github.com/thole-dev/thole/journal"
)

// Schema is the current version of the shapes of all concepts' events and records.
// Events have it in their Schema field, and so do records whose shape has ever changed.
// When the Store reads one of an earlier version, it converts it with the Upcast that
// its type declares. This happens nowhere else.
const Schema = 2

// An Upcast converts data of an earlier schema to the current one. It returns data
// unchanged that is current already, or that it cannot read: the reader then reports
// the error.
type Upcast[T Event | Record] func(of T, data json.RawMessage) json.RawMessage

// stored prepares an event that the backend returned for readers.
func (cs *Concepts) stored(e *Event) {
	e.Data = journal.MendJSON(e.Data)
	cs.lift(e)
}

// storedRecord prepares a record that the backend returned for readers.
func (cs *Concepts) storedRecord(r *Record) {
	r.Value = journal.MendJSON(r.Value)
	cs.liftRecord(r)
}

// lift upcasts an event. Its data may be shared, so lift replaces it and never changes
// it in place.
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

// liftRecord upcasts a record.
func (cs *Concepts) liftRecord(r *Record) {
	if r.Schema >= Schema || r.Value == nil || !cs.upcasts[kindOf(r.Key)] {
		return
	}
	if t := cs.recordOf(r.Key); t != nil && t.Upcast != nil {
		r.Value, r.Schema = t.Upcast(*r, r.Value), Schema
	}
}

// Reshape decodes data, a JSON object, calls change with its members and encodes it
// again. If data is not an object, or change changes nothing, it returns data. It is
// for implementing an [Upcast].
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

// Renamed returns an Upcast that renames members of a JSON object, from each key of
// names to its value. If the object has a member with the new name, that is kept and
// the old one deleted.
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

// schema returns the schema of new events of a type; 0 if no concept declares the type
// or it has its own schema.
func (cs *Concepts) schema(typ string) int {
	if t := cs.events[typ]; t != nil && !t.OwnSchema {
		return Schema
	}
	return 0
}

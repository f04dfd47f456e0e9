package run

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/thole-dev/thole"
)

// internals are what only the engine needs of a run: the record run/<id>/internal, which
// is there while they hold something. It is written with the run's own record, whose
// version so stands for both.
type internals struct {
	Slot     string `json:"slot,omitempty"`     // key of the record that admits one run at a time, until it ends
	Ready    bool   `json:"ready,omitempty"`    // queued, and its turn has come
	Reserved bool   `json:"reserved,omitempty"` // for the worker that holds its lease already
	Children int    `json:"children,omitempty"` // sub-agents' runs so far
	Inbox    string `json:"inbox,omitempty"`    // the run under whose key its signals lie; empty: itself
	Takings  int    `json:"takings,omitempty"`  // how many notes there are of signals that it took

	// When requests that wait end, by name. What is not in it a worker waits for by itself.
	WaitsUntil map[string]time.Time `json:"waits_until,omitempty"`

	stored string // as JSON; "": there is no record
}

const internal = "internal"

func internalKey(id string) string { return key(id) + "/" + internal }

func (in *internals) json() string {
	text, _ := json.Marshal(in) // plain values: cannot fail
	if string(text) == "{}" {
		return ""
	}
	return string(text)
}

func (in *internals) put(tx *thole.Tx, id string) {
	text := in.json()
	switch {
	case text == in.stored:
		return
	case text == "":
		tx.Delete(internalKey(id))
	default:
		tx.Put(internalKey(id), in, nil)
	}
	in.stored = text
}

// whole reads a run from its two records.
func whole(id string, rec, own thole.Record) (*Run, error) {
	r, err := decode(id, rec)
	if err != nil {
		return nil, err
	}
	if own.Exists() {
		r.own = internals{}
		if err := own.As(&r.own); err != nil {
			return nil, err
		}
		r.own.stored = r.own.json()
	}
	if r.own.Slot != "" && !strings.HasPrefix(r.own.Slot, slotPrefix) { // what ends a run writes it
		return nil, fmt.Errorf("%w: run %s waits in %.80q, which is no slot", thole.ErrCorrupt, id, r.own.Slot)
	}
	return r, nil
}

// before is what a run's record was before schema 2: one with the internals, and with
// a single signal that it waits for.
func before(_ thole.Record, data json.RawMessage) json.RawMessage {
	return thole.Reshape(data, func(m map[string]json.RawMessage) {
		own := make(map[string]json.RawMessage)
		for _, name := range []string{"slot", "ready", "reserved", "children", "inbox", "takings", "waits_until"} {
			if v, ok := m[name]; ok {
				own[name] = v
				delete(m, name)
			}
		}
		if len(own) > 0 && m[internal] == nil {
			m[internal], _ = json.Marshal(own) // valid JSON: cannot fail
		}
		if first := m["waiting_for"]; first != nil && m["waits"] == nil {
			m["waits"] = json.RawMessage("[" + string(first) + "]")
		}
		if cancel := m["cancel"]; cancel != nil {
			m["cancel"] = thole.Renamed[thole.Record](map[string]string{"time": "requested_at"})(thole.Record{}, cancel)
		}
	})
}

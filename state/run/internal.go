package run

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/thole-dev/thole"
)

// internals are the fields of a run that only the engine needs, in the record
// run/<id>/internal, which is absent when all are zero. It is only written together
// with the run's own record, so a check of that record's version covers both.
type internals struct {
	Slot     string `json:"slot,omitempty"`     // key of the record that admits one run at a time, until it ends
	Ready    bool   `json:"ready,omitempty"`    // queued, and its turn has come
	Reserved bool   `json:"reserved,omitempty"` // for the worker that already holds its lease
	Unnamed  bool   `json:"unnamed,omitempty"`  // asked for without an agent: the run's is its worker's
	Resumes  bool   `json:"resumes,omitempty"`  // it goes on from a run that has a turn in the history, so it takes no posted message
	Children int    `json:"children,omitempty"` // how many sub-agents' runs it has started
	Inbox    string `json:"inbox,omitempty"`    // id of the run whose keys hold its signals; "": its own
	Takings  int    `json:"takings,omitempty"`  // how many taking notes it has

	// When the waiting requests end, by signal name. A name without an entry is waited
	// for in the worker's own process.
	WaitsUntil map[string]time.Time `json:"waits_until,omitempty"`

	stored string // JSON of the stored record; "": there is none
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
	if r.own.Slot != "" && !strings.HasPrefix(r.own.Slot, slotPrefix) { // finish writes to this key
		return nil, fmt.Errorf("%w: run %s waits in %.80q, which is no slot", thole.ErrCorrupt, id, r.own.Slot)
	}
	return r, nil
}

// before upcasts a run's record from before schema 2, which held the internals, too,
// and waited for a single signal.
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

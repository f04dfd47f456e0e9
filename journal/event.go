package journal

import (
	"encoding/json"
	"fmt"
	"time"

	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Event is an immutable fact in a journal.
type Event struct {
	Position Position        `json:"position"`
	Stream   string          `json:"stream"`
	Type     string          `json:"type"` // "noun.verb", such as "message.added"
	Time     time.Time       `json:"time"` // for people; orders nothing. Microseconds, UTC
	Actor    string          `json:"actor,omitempty"`
	Cause    string          `json:"cause,omitempty"`   // the request, run or event it came from
	Subject  string          `json:"subject,omitempty"` // the person whose data it holds
	Refs     []string        `json:"refs,omitempty"`    // ids it refers to
	Schema   int             `json:"schema,omitempty"`  // version of Data's shape
	Data     json.RawMessage `json:"data,omitempty"`    // nil after redaction
}

// Record is the current value under a key.
type Record struct {
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value"`
	Schema  int             `json:"schema,omitempty"`
	Version Position        `json:"version"`             // Last of the commit that wrote it; zero: absent
	Updated time.Time       `json:"updated_at,omitzero"` // Commit.Now of that commit
	Expires time.Time       `json:"expires_at,omitzero"` // zero: never. Microseconds, UTC
	Notify  bool            `json:"notify,omitempty"`

	Pending bool `json:"-"` // written by the transaction that reads it and not committed yet
}

// Exists reports whether the record exists.
func (r Record) Exists() bool { return r.Pending || !r.Version.IsZero() }

// Expired reports whether the record has expired at now.
func (r Record) Expired(now time.Time) bool {
	return !r.Expires.IsZero() && !r.Expires.After(now)
}

// Redact removes from e everything that may be about a person. Position, stream, type,
// time and schema stay.
func (e *Event) Redact() {
	e.Actor, e.Cause, e.Subject, e.Refs, e.Data = "", "", "", nil, nil
}

// As decodes a record's value into v. See [Decode].
func (r Record) As(v any) error {
	if err := jsonv1.Unmarshal(r.Value, v); err != nil {
		return corrupt("record "+r.Key, err)
	}
	return nil
}

// As decodes an event's data into v. See [Decode].
func (e Event) As(v any) error {
	if err := jsonv1.Unmarshal(e.Data, v); err != nil {
		return corrupt("event "+e.Type+" at "+e.Position.String(), err)
	}
	return nil
}

// Decode unmarshals stored JSON into v. If that fails it returns ErrCorrupt, with what
// as the name of the data. It never panics.
func Decode(what string, data json.RawMessage, v any) error {
	if err := jsonv1.Unmarshal(data, v); err != nil {
		return corrupt(what, err)
	}
	return nil
}

func corrupt(what string, err error) error { return fmt.Errorf("%w: %s: %v", ErrCorrupt, what, err) }

// Size returns the approximate number of bytes that e takes in a journal.
func (e *Event) Size() int {
	n := len(e.Stream) + len(e.Type) + len(e.Subject) + len(e.Data)
	for _, ref := range e.Refs {
		n += len(ref)
	}
	return n
}

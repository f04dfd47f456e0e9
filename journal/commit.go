package journal

import (
	"encoding/json"
	"iter"
	"slices"
	"time"
)

// Check requires that the version of one stream or one record is At. A stream's version
// is the position of its last event. A zero At requires that the record does not exist,
// or that the stream has no events.
type Check struct {
	Stream string   `json:"stream,omitempty"` // exactly one of Stream and Key is set
	Key    string   `json:"key,omitempty"`
	At     Position `json:"at" optional:"it must be absent"`
}

// Write sets or deletes a record.
type Write struct {
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value" optional:"the record is deleted"` // nil deletes
	Schema  int             `json:"schema,omitempty"`
	Expires time.Time       `json:"expires_at,omitzero"` // zero: never
	Notify  bool            `json:"notify,omitempty"`    // its expiry emits an event; until then no commit can touch the expired record
}

// Commit is a set of changes that is applied completely or not at all. It has at least
// one event or write. The keys of its writes are distinct.
type Commit struct {
	Space  string
	Now    time.Time // from the Store's clock, never decreasing in a process
	Actor  string
	Cause  string
	Checks []Check
	Events []Event // Position, Time, Actor and Cause are filled on commit
	Writes []Write
}

// Result is the outcome of one Commit.
type Result struct {
	First    Position // position of the first event
	Last     Position // position of the last event, and version of the written records
	Conflict *ConflictError
	Err      error // why it was not acknowledged; set only by a Backend and by Store.Apply
	Repeated bool  // set by the Store: an earlier call under the same idempotency key made the commit
}

// Conflict evaluates the commit's checks, then its writes, and returns the first
// conflict, or nil. The function stream returns a stream's version, record returns a
// record, expired or not; both return zero if it is absent. Their errors are returned
// unchanged.
func (c *Commit) Conflict(stream func(name string) (Position, error), record func(key string) (Record, error)) (*ConflictError, error) {
	for _, k := range c.Checks {
		var actual Position
		var ended bool // the record has expired and its expiry is to be told
		if k.Key == "" {
			at, err := stream(k.Stream)
			if err != nil {
				return nil, err
			}
			actual = at
		} else {
			r, err := record(k.Key)
			if err != nil {
				return nil, err
			}
			expired := r.Exists() && r.Expired(c.Now)
			ended = expired && r.Notify
			if !expired || r.Notify {
				actual = r.Version
			}
		}
		if ended || actual != k.At {
			return &ConflictError{Space: c.Space, Check: k, Actual: actual, Expired: ended}, nil
		}
	}
	for i := range c.Writes {
		key := c.Writes[i].Key
		if slices.ContainsFunc(c.Checks, func(k Check) bool { return k.Key == key }) {
			continue // the check has looked at it
		}
		r, err := record(key)
		if err != nil {
			return nil, err
		}
		if r.Exists() && r.Notify && r.Expired(c.Now) {
			return &ConflictError{Space: c.Space, Check: Check{Key: key}, Actual: r.Version, Expired: true}, nil
		}
	}
	return nil, nil
}

// Event returns the i-th event of c as the journal has it after c was applied with
// result r.
func (c *Commit) Event(i int, r Result) Event {
	e := c.Events[i]
	e.Position = r.First
	e.Position.Seq += uint64(i)
	e.Time, e.Actor, e.Cause = c.Now, c.Actor, c.Cause
	return e
}

// Record returns the record that the i-th write of c leaves after c was applied with
// result r. For a deletion only the key is set.
func (c *Commit) Record(i int, r Result) Record {
	w := &c.Writes[i]
	if w.Value == nil {
		return Record{Key: w.Key}
	}
	return Record{Key: w.Key, Value: w.Value, Schema: w.Schema, Version: r.Last,
		Updated: c.Now, Expires: w.Expires, Notify: w.Notify}
}

// Clone returns a copy of c that shares no bytes with it.
func (c Commit) Clone() Commit {
	c.Checks = slices.Clone(c.Checks)
	c.Events = slices.Clone(c.Events)
	c.Writes = slices.Clone(c.Writes)
	for i := range c.Events {
		c.Events[i].Data = slices.Clone(c.Events[i].Data)
		c.Events[i].Refs = slices.Clone(c.Events[i].Refs)
	}
	for i := range c.Writes {
		c.Writes[i].Value = slices.Clone(c.Writes[i].Value)
	}
	return c
}

// Names iterates over every key and stream that c names.
func (c *Commit) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, k := range c.Checks {
			if !yield(k.Key + k.Stream) {
				return
			}
		}
		for i := range c.Events {
			if !yield(c.Events[i].Stream) {
				return
			}
		}
		for i := range c.Writes {
			if !yield(c.Writes[i].Key) {
				return
			}
		}
	}
}

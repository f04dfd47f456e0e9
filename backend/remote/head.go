package remote

import (
	"fmt"
	"time"

	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/journal/problem"
)

// The heads of messages: the types of package journal with the lengths of values in
// place of the values.

type requestHead struct {
	Space      string      `json:"space,omitempty"`
	Names      []string    `json:"names,omitempty"`
	Batch      []commit    `json:"batch,omitempty"`
	List       listQuery   `json:"list,omitzero"`
	Read       readQuery   `json:"read,omitzero"`
	Spaces     spacesQuery `json:"spaces,omitzero"`
	Purge      purge       `json:"purge,omitzero"`
	Chunk      chunk       `json:"chunk,omitzero"`
	Broadcasts []broadcast `json:"broadcasts,omitempty"`
	Partial    bool        `json:"partial,omitempty"`
}

type answerHead struct {
	Results []result       `json:"results,omitempty"`
	Records []record       `json:"records,omitempty"`
	Page    page           `json:"page,omitzero"`
	Heads   []journal.Head `json:"heads,omitempty"`
	Names   []string       `json:"names,omitempty"`
}

type commit struct {
	Space  string          `json:"space"`
	Now    time.Time       `json:"now"`
	Actor  string          `json:"actor,omitempty"`
	Cause  string          `json:"cause,omitempty"`
	Checks []journal.Check `json:"checks,omitempty"`
	Events []event         `json:"events,omitempty"`
	Writes []write         `json:"writes,omitempty"`
}

type event struct {
	journal.Event     // without Data
	Bytes         int `json:"bytes,omitempty"` // of Data; 0: nil
}

type record struct {
	journal.Record            // without Value, Updated and Expires
	Updated        time.Time  `json:"updated"`
	Expires        *time.Time `json:"expires,omitempty"`
	Bytes          int        `json:"bytes,omitempty"` // of Value; 0: nil
}

type write struct {
	journal.Write            // without Value and Expires
	Expires       *time.Time `json:"expires,omitempty"`
	Bytes         int        `json:"bytes,omitempty"` // of Value; 0: nil, which deletes
}

type broadcast struct {
	journal.Broadcast     // without its event's Data
	Bytes             int `json:"bytes,omitempty"`
}

type result struct {
	First    journal.Position `json:"first,omitzero"`
	Last     journal.Position `json:"last,omitzero"`
	Conflict *conflict        `json:"conflict,omitempty"`
	Error    *problem.Problem `json:"error,omitempty"`
}

type conflict struct {
	Space   string           `json:"space"`
	Check   journal.Check    `json:"check"`
	Actual  journal.Position `json:"actual,omitzero"`
	Expired bool             `json:"expired,omitempty"`
}

type page struct {
	Events []event          `json:"events,omitempty"`
	Next   journal.Position `json:"next,omitzero"`
}

type chunk struct {
	Head    journal.Head `json:"head"`
	Events  []event      `json:"events,omitempty"`
	Records []record     `json:"records,omitempty"`
	Done    bool         `json:"done,omitempty"`
}

type listQuery struct {
	Prefix string    `json:"prefix,omitempty"`
	After  string    `json:"after,omitempty"`
	Limit  int       `json:"limit,omitempty"`
	DueBy  time.Time `json:"due_by,omitzero"`
}

type readQuery struct {
	Stream   string           `json:"stream,omitempty"`
	After    journal.Position `json:"after,omitzero"`
	Before   journal.Position `json:"before,omitzero"`
	Backward bool             `json:"backward,omitempty"`
	Limit    int              `json:"limit,omitempty"`
	Types    []string         `json:"types,omitempty"`
	Actor    string           `json:"actor,omitempty"`
	Subject  string           `json:"subject,omitempty"`
	Since    time.Time        `json:"since,omitzero"`
	Until    time.Time        `json:"until,omitzero"`
}

type spacesQuery struct {
	After string    `json:"after,omitempty"`
	Limit int       `json:"limit,omitempty"`
	DueBy time.Time `json:"due_by,omitzero"`
}

type purge struct {
	All     bool               `json:"all,omitempty"`
	Before  journal.Position   `json:"before,omitzero"`
	Streams []string           `json:"streams,omitempty"`
	UpTo    journal.Position   `json:"up_to,omitzero"`
	Events  []journal.Position `json:"events,omitempty"`
}

func (w *writer) commit(c journal.Commit) commit {
	for _, k := range c.Checks {
		w.text(k.Key)
		w.text(k.Stream)
	}
	return commit{
		Space: w.text(c.Space), Now: c.Now, Actor: w.text(c.Actor), Cause: w.text(c.Cause),
		Checks: c.Checks, Events: convert(c.Events, w.event), Writes: convert(c.Writes, w.write),
	}
}

func (r *reader) commit(c commit) journal.Commit {
	return journal.Commit{
		Space: c.Space, Now: c.Now, Actor: c.Actor, Cause: c.Cause,
		Checks: c.Checks, Events: convert(c.Events, r.event), Writes: convert(c.Writes, r.write),
	}
}

func (w *writer) event(e journal.Event) event {
	for _, s := range []string{e.Stream, e.Type, e.Actor, e.Cause, e.Subject} {
		w.text(s)
	}
	w.texts(e.Refs)
	n := w.value(e.Data)
	e.Data = nil
	return event{e, n}
}

func (r *reader) event(e event) journal.Event {
	e.Data = r.value(e.Bytes)
	return e.Event
}

func (w *writer) record(rec journal.Record) record {
	w.text(rec.Key)
	n := w.value(rec.Value)
	out := record{rec, rec.Updated, given(rec.Expires), n}
	out.Value, out.Record.Updated, out.Record.Expires = nil, time.Time{}, time.Time{}
	return out
}

func (r *reader) record(rec record) journal.Record {
	rec.Value, rec.Record.Updated, rec.Record.Expires = r.value(rec.Bytes), rec.Updated, r.expiry(rec.Key, rec.Expires)
	return rec.Record
}

func (w *writer) write(x journal.Write) write {
	w.text(x.Key)
	if x.Value != nil && len(x.Value) == 0 && w.err == nil {
		w.err = fmt.Errorf("%w: the value of %.80q has no bytes; nil deletes", journal.ErrInvalid, x.Key)
	}
	n := w.value(x.Value)
	out := write{x, given(x.Expires), n}
	out.Value, out.Write.Expires = nil, time.Time{}
	return out
}

func (r *reader) write(x write) journal.Write {
	x.Value, x.Write.Expires = r.value(x.Bytes), r.expiry(x.Key, x.Expires)
	return x.Write
}

// given returns nil for the zero time, so that the message leaves it out.
func given(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// expiry is the inverse of given. It refuses an explicit zero time: that is in the
// past, but Thole would take it for "never".
func (r *reader) expiry(key string, t *time.Time) time.Time {
	switch {
	case t == nil:
		return time.Time{}
	case t.IsZero() && r.err == nil:
		r.err = fmt.Errorf("%w: expires of %.80q is before 1970", journal.ErrInvalid, key)
	}
	return *t
}

func (w *writer) broadcast(s journal.Broadcast) broadcast {
	w.text(s.Origin)
	w.text(s.Space)
	e := w.event(s.Event)
	s.Event = e.Event
	return broadcast{s, e.Bytes}
}

func (r *reader) broadcast(s broadcast) journal.Broadcast {
	s.Event.Data = r.value(s.Bytes)
	return s.Broadcast
}

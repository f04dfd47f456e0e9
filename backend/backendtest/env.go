package backendtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole/journal"
)

// env is the environment of a case: a store, and comparisons that are counted.
type env struct {
	testing.TB
	harness Harness
	b       *tracker // the backend
	ctx     context.Context
	checks  *atomic.Int64
	absent  bool // the case needs an ability that the harness lacks

	patience time.Duration // how long a hint may take before a case gives up on it
}

func newEnv(t testing.TB, h Harness, checks *atomic.Int64) *env {
	e := &env{TB: t, harness: h, ctx: t.Context(), checks: checks}
	e.b = &tracker{Backend: h.Backend, history: &history{spaces: map[string]*spaceHistory{}}}
	t.Cleanup(func() {
		if err := e.b.Close(); err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
	})
	return e
}

// reopen closes the store and opens the same data again.
func (e *env) reopen() {
	e.Helper()
	if e.harness.Reopen != nil {
		e.b = &tracker{Backend: e.harness.Reopen(e), history: e.b.history}
	}
}

// now is the base of all times in the suite. It is in the past, so that the suite
// detects an engine that uses its own clock for expiry.
var now = time.Date(2025, 3, 4, 5, 6, 7, 891_234_000, time.UTC)

const space = "project:shop"

// ok counts a check, and reports an error if holds is false.
func (e *env) ok(holds bool, format string, args ...any) {
	e.Helper()
	e.checks.Add(1)
	if !holds {
		e.Errorf(format, args...)
	}
}

// need is ok, but ends the case on an error.
func (e *env) need(holds bool, format string, args ...any) {
	e.Helper()
	e.checks.Add(1)
	if !holds {
		e.Fatalf(format, args...)
	}
}

// equal compares deeply. It treats as equal what the contract treats as equal, such as
// nil and empty slices.
func (e *env) equal(what string, got, want any) {
	e.Helper()
	got, want = canonical(got), canonical(want)
	e.checks.Add(1)
	if !reflect.DeepEqual(got, want) {
		e.Errorf("%s:\ngot  %s\nwant %s", what, show(got), show(want))
	}
}

func (e *env) is(what string, err, target error) {
	e.Helper()
	e.ok(errors.Is(err, target), "%s: got error %v, want %v", what, err, target)
}

// trimmed checks that err is a TrimmedError about cursor.
func (e *env) trimmed(what string, err error, cursor journal.Position) {
	e.Helper()
	var te *journal.TrimmedError
	e.need(errors.As(err, &te), "%s: got error %v, want a TrimmedError", what, err)
	e.is(what, err, journal.ErrTrimmed)
	e.equal(what+": its cursor", te.Cursor, cursor)
	e.ok(te.Reason != "", "%s: the error has no reason", what)
}

// canonical returns v in a form in which values that the contract treats as equal are
// deeply equal.
func canonical(v any) any {
	switch v := v.(type) {
	case []journal.Event:
		out := make([]journal.Event, len(v))
		for i, ev := range v {
			ev.Time = canonicalTime(ev.Time)
			if len(ev.Refs) == 0 {
				ev.Refs = nil
			}
			out[i] = ev
		}
		return out
	case []journal.Record:
		out := make([]journal.Record, len(v))
		for i, r := range v {
			r.Updated, r.Expires = canonicalTime(r.Updated), canonicalTime(r.Expires)
			out[i] = r
		}
		return out
	case journal.Event:
		return canonical([]journal.Event{v}).([]journal.Event)[0]
	case journal.Record:
		return canonical([]journal.Record{v}).([]journal.Record)[0]
	case journal.Head:
		v.Epochs = append([]journal.Epoch{}, v.Epochs...)
		return v
	case []journal.Head:
		out := make([]journal.Head, len(v))
		for i, h := range v {
			out[i] = canonical(h).(journal.Head)
		}
		return out
	case []string:
		return append([]string{}, v...)
	}
	return v
}

func canonicalTime(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Round(0)
}

func show(v any) string {
	text := fmt.Sprintf("%+v", v)
	if b, err := json.Marshal(v); err == nil {
		text = string(b)
	}
	if len(text) > 1200 {
		text = fmt.Sprintf("%s… (%d bytes)", text[:1200], len(text))
	}
	return text
}

// event returns an event of the stream with some data.
func event(stream, typ string) journal.Event {
	return journal.Event{Stream: stream, Type: typ, Schema: 1, Data: json.RawMessage(`{"n":1}`)}
}

// set returns a write of a record.
func set(key, value string) journal.Write {
	return journal.Write{Key: key, Value: json.RawMessage(value)}
}

// commitOf makes a commit to the suite's usual space from its parts.
func commitOf(parts ...any) journal.Commit {
	c := journal.Commit{Space: space, Now: now, Actor: "user:42", Cause: "run_1"}
	for _, part := range parts {
		switch p := part.(type) {
		case string:
			c.Space = p
		case time.Time:
			c.Now = p
		case journal.Check:
			c.Checks = append(c.Checks, p)
		case journal.Event:
			c.Events = append(c.Events, p)
		case journal.Write:
			c.Writes = append(c.Writes, p)
		default:
			panic(fmt.Sprintf("commitOf: %T", part))
		}
	}
	return c
}

// eventsOf returns the events that a read must return for a commit with that result.
func eventsOf(c journal.Commit, r journal.Result) []journal.Event {
	var events []journal.Event
	for i, ev := range c.Events {
		ev.Position = r.First
		ev.Position.Seq += uint64(i)
		ev.Time, ev.Actor, ev.Cause = c.Now, c.Actor, c.Cause
		ev.Data = bytes.Clone(ev.Data)
		events = append(events, ev)
	}
	return events
}

// recordsOf returns the records that a commit wrote, in its order.
func recordsOf(c journal.Commit, r journal.Result) []journal.Record {
	var records []journal.Record
	for _, w := range c.Writes {
		if w.Value != nil {
			records = append(records, journal.Record{
				Key: w.Key, Value: bytes.Clone(w.Value), Schema: w.Schema, Version: r.Last,
				Updated: c.Now, Expires: w.Expires, Notify: w.Notify,
			})
		}
	}
	return records
}

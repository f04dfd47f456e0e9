package thole_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

// renamed declares an event and a record whose member "a" is called "b" since this
// schema. Its Expirer passes on the values that it gets.
func renamed(ended func(json.RawMessage)) *thole.Concept {
	names := map[string]string{"a": "b"}
	return &thole.Concept{Name: "thing", About: "what is tested",
		Events: []thole.EventType{{Type: "thing.made", About: "it was made", Streams: []string{"thing"}, Upcast: thole.Renamed[thole.Event](names)}},
		Records: []thole.RecordType{{Key: "thing/{id}", About: "a thing", Upcast: thole.Renamed[thole.Record](names),
			Expire: func(ctx context.Context, sp *thole.Space, rec thole.Record) error {
				ended(rec.Value)
				return thole.DeleteExpired(ctx, sp, rec)
			}}},
	}
}

// A program of an earlier version may use this store as its backend.
func TestWatchersAndReadersSeeOneShapeOfAnEventThatWasApplied(t *testing.T) {
	s, err := thole.Open(t.Context(), memstore.New(), &thole.Options{Concepts: []*thole.Concept{renamed(nil)}, Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sp := s.Space("user:1")
	w, err := sp.Watch(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	applied(t, s, rawCommit("user:1", thole.Event{Stream: "thing", Type: "thing.made", Schema: 1, Data: json.RawMessage(`{"a":1}`)}))
	live, err := w.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page, err := sp.Read(t.Context(), thole.ReadQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string]thole.Event{"the watcher": live[0].Event, "the reader": page.Events[0]} {
		if string(got.Data) != `{"b":1}` || got.Schema != thole.Schema {
			t.Errorf("%s: got schema %d, %s; want %d, with b", what, got.Schema, got.Data, thole.Schema)
		}
	}
}

func TestAnExpirerGetsTheShapeThatReadersSee(t *testing.T) {
	clock := &wall{t: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	var got string
	s, err := thole.Open(t.Context(), memstore.New(), &thole.Options{Now: clock.now, Sweep: -1,
		Concepts: []*thole.Concept{renamed(func(value json.RawMessage) { got = string(value) })}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := rawCommit("user:1")
	c.Now = clock.now()
	c.Writes = []thole.Write{{Key: "thing/1", Value: json.RawMessage(`{"a":1}`), Schema: 1, Expires: clock.now().Add(time.Minute)}}
	applied(t, s, c)
	clock.add(time.Hour)
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got != `{"b":1}` {
		t.Errorf("got %s, want it with b", got)
	}
}

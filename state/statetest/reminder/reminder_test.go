package reminder_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/state/statetest/reminder"
	"github.com/thole-dev/thole/state/thread"
)

// shared is a memory backend that outlives a Store on it.
type shared struct{ *memstore.Store }

func (shared) Close() error { return nil }

func open(t *testing.T, b *memstore.Store, concept *thole.Concept) *thole.Store {
	t.Helper()
	s, err := thole.Open(t.Context(), shared{b}, &thole.Options{Concepts: []*thole.Concept{concept}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// The first process does not know of reminders, and sweeps what it knows. The second
// one, which sweeps too, knows of them.
func TestAReminderComesUpOnceAlsoWhereAProcessSweepsThatDoesNotKnowOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memstore.New()
		ignorant := open(t, b, thread.Concept)
		time.Sleep(time.Minute) // it holds the sweepers' leases of all that it knows
		s := open(t, b, reminder.Concept)
		sp := s.Space("project:a")
		chat, err := thread.In(sp).Create(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		gone, err := thread.In(sp).Create(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		set, err := reminder.In(sp).Set(t.Context(), chat.ID, "hello", s.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reminder.In(sp).Set(t.Context(), gone.ID, "too late", s.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		cleared, err := reminder.In(sp).Set(t.Context(), gone.ID, "in vain", s.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if err := thread.In(sp).Destroy(t.Context(), gone.ID, nil); err != nil {
			t.Fatal(err)
		}
		if err := reminder.In(sp).Clear(t.Context(), cleared.ID); err != nil {
			t.Fatal(err)
		}
		for e, err := range sp.Events(t.Context(), thole.ReadQuery{Stream: thread.Key(gone.ID), Types: []string{reminder.TypeCleared}}) {
			t.Errorf("a thread that has ended was told %v, %v", e, err)
		}
		time.Sleep(50 * time.Second)
		if got := due(t, sp); len(got) != 0 {
			t.Errorf("before its time: %v", got)
		}
		s.Close() // while it is due, only the process sweeps that does not know it
		time.Sleep(time.Hour)
		if got := due(t, ignorant.Space("project:a")); len(got) != 0 {
			t.Errorf("a process without the concept emitted %v", got)
		}
		sp = open(t, b, reminder.Concept).Space("project:a")
		time.Sleep(time.Minute)
		if got := due(t, sp); len(got) != 1 || got[0] != (reminder.Due{ID: set.ID, Text: "hello"}) {
			t.Errorf("due came %v, want %v once", got, set)
		}
		if recs, err := b.List(t.Context(), "project:a", thole.ListQuery{Prefix: "reminder/"}); err != nil || len(recs) != 0 {
			t.Errorf("left are %v, %v", recs, err)
		}
		if _, err := reminder.In(sp).Get(t.Context(), set.ID); !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("it still exists: %v", err)
		}
	})
}

// due returns what was told of reminders that came up.
func due(t *testing.T, sp *thole.Space) (all []reminder.Due) {
	t.Helper()
	for e, err := range sp.Events(context.Background(), thole.ReadQuery{Types: []string{reminder.TypeDue}}) {
		var r reminder.Due
		if err == nil {
			err = e.As(&r)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

package thole_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

// twoStores opens two Stores on one backend.
func twoStores(t *testing.T) (ours, theirs *thole.Space) {
	t.Helper()
	backend := memstore.New()
	for _, sp := range []**thole.Space{&ours, &theirs} {
		s, err := thole.Open(t.Context(), kept{backend}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		*sp = s.Space("project:shop")
	}
	return ours, theirs
}

// kept is a backend that outlives its Store.
type kept struct{ *memstore.Store }

func (kept) Close() error { return nil }

const canary = "canary-7f3a9c"

// withCanary commits n events; the first contains the canary.
func withCanary(t *testing.T, sp *thole.Space, n int) (first, last thole.Position) {
	t.Helper()
	for i := range n {
		data := `"harmless"`
		if i == 0 {
			data = `"` + canary + `"`
		}
		res, err := sp.Commit(t.Context(), thole.Commit{Events: []thole.Event{{Stream: "app/s", Type: "a.b", Data: []byte(data)}}})
		if err != nil {
			t.Fatal(err)
		}
		if last = res.Last; i == 0 {
			first = last
		}
	}
	return first, last
}

func TestAProjectionForgetsWhatAnotherProcessErased(t *testing.T) {
	ours, theirs := twoStores(t)
	first, last := withCanary(t, ours, 3)
	texts := thole.Projection[[]string]{
		Name: "texts",
		Apply: func(s []string, e thole.Event) ([]string, error) {
			return append(s[:len(s):len(s)], string(e.Data)), nil
		},
		Size: func([]string) int { return 100 },
	}
	load := func(ctx context.Context) (s []string, err error) {
		for e, err := range ours.Events(ctx, thole.ReadQuery{Stream: "app/s"}) {
			if err != nil {
				return nil, err
			}
			s = append(s, string(e.Data))
		}
		return s, nil
	}
	for _, want := range []string{`"` + canary + `"`, ""} {
		got, err := texts.At(t.Context(), ours, "app/s", last, load)
		if err != nil || len(got) != 3 || got[0] != want {
			t.Fatalf("got %q, %v; want %q first", got, err, want)
		}
		if err := theirs.Purge(t.Context(), thole.Purge{Events: []thole.Position{first}}); err != nil {
			t.Fatal(err)
		}
	}
}

// A later watcher reads the journal, not what this process kept for its other watchers.
func TestALaterWatcherReceivesNothingThatAnotherProcessErased(t *testing.T) {
	ours, theirs := twoStores(t)
	begin, err := ours.Commit(t.Context(), thole.Commit{Events: []thole.Event{{Stream: "app/s", Type: "a.b"}}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := ours.Watch(t.Context(), &thole.WatchOptions{After: begin.Last})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	first, _ := withCanary(t, ours, 1)
	if got, err := w.Next(t.Context()); err != nil || !bytes.Contains(got[0].Data, []byte(canary)) {
		t.Fatalf("watch: got %v, %v", got, err)
	}
	if err := theirs.Purge(t.Context(), thole.Purge{Events: []thole.Position{first}}); err != nil {
		t.Fatal(err)
	}
	later, err := ours.Watch(t.Context(), &thole.WatchOptions{After: begin.Last})
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	if got, err := later.Next(t.Context()); err != nil || len(got) != 1 || got[0].Data != nil {
		t.Errorf("a later watch: got %v, %v; want the event without what was erased", got, err)
	}
}

// purging is a backend that calls a function right before a purge.
type purging struct {
	kept
	before func()
}

func (p purging) Purge(ctx context.Context, space string, what thole.Purge) error {
	p.before()
	return p.kept.Purge(ctx, space, what)
}

// What a process reads after an erasure was noted and before it is done is no longer
// valid once it is done.
func TestAProjectionForgetsWhatItReadDuringAnErasure(t *testing.T) {
	backend := memstore.New()
	ours := openOn(t, kept{backend}, nil).Space("project:shop")
	first, last := withCanary(t, ours, 1)
	texts := thole.Projection[string]{
		Name:  "text",
		Apply: func(_ string, e thole.Event) (string, error) { return string(e.Data), nil },
		Size:  func(s string) int { return len(s) },
	}
	at := func() string {
		got, err := texts.At(t.Context(), ours, "app/s", last, func(ctx context.Context) (s string, err error) {
			page, err := ours.Read(ctx, thole.ReadQuery{Stream: "app/s"})
			for _, e := range page.Events {
				s = string(e.Data)
			}
			return s, err
		})
		if err != nil {
			t.Error(err)
		}
		return got
	}
	theirs := openOn(t, purging{kept{backend}, func() {
		if got := at(); got != `"`+canary+`"` {
			t.Errorf("before the purge: got %s", got)
		}
	}}, nil).Space("project:shop")
	if err := theirs.Purge(t.Context(), thole.Purge{Events: []thole.Position{first}}); err != nil {
		t.Fatal(err)
	}
	if got := at(); got != "" {
		t.Errorf("after the purge: got %s", got)
	}
}

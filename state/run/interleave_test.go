package run_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// lastGasp refuses all commits after the one with which a run crashed.
type lastGasp struct {
	journal.Backend
	over atomic.Bool
}

func (g *lastGasp) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	if g.over.Load() {
		return nil, thole.ErrUnavailable
	}
	g.over.Store(slices.ContainsFunc(batch, func(c thole.Commit) bool {
		return slices.ContainsFunc(c.Events, func(e thole.Event) bool {
			return e.Type == "run.finished" && bytes.Contains(e.Data, []byte(run.Crashed))
		})
	}))
	return g.Backend.Commit(ctx, batch)
}

// The process that finds the crash may die right after it, and then nobody would look
// for the children.
func TestTheChildrenOfACrashedRunAreCancelledWithIt(t *testing.T) {
	ctx := t.Context()
	var late atomic.Int64
	b := &lastGasp{Backend: memstore.New()}
	store, err := thole.Open(ctx, b, &thole.Options{Concepts: []*thole.Concept{run.Concept}, Sweep: -1, Now: func() time.Time {
		return time.Now().Add(time.Duration(late.Load()))
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	sp := store.Space("project:shop")
	rs := run.In(sp, nil)
	th, err := thread.In(sp).Create(ctx, &thread.CreateOptions{Assistant: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	parent, err := rs.Start(ctx, th.ID, run.Request{Prompt: "root"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rs.Claim(ctx, &run.ClaimOptions{Agent: "coder"}); err != nil {
		t.Fatal(err)
	}
	child, err := rs.Start(ctx, "", run.Request{Prompt: "sub", Agent: "sub", Parent: parent.ID})
	if err != nil {
		t.Fatal(err)
	}
	late.Store(int64(time.Hour))
	store.Sweep(ctx) // it fails after the first commit, if it needs two
	for id, want := range map[string]string{parent.ID: run.Crashed, child.ID: run.Cancelled} {
		if r, err := rs.Get(ctx, id); err != nil || r.Status != want {
			t.Errorf("run %s: got %+v, %v; want %s", id, r, err, want)
		}
	}
}

// meddler calls before right before the first commit with a certain event.
type meddler struct {
	journal.Backend
	event  string
	before func() // nil: not again
}

func (m *meddler) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	for _, c := range batch {
		if do := m.before; do != nil && slices.ContainsFunc(c.Events, func(e thole.Event) bool { return e.Type == m.event }) {
			m.before = nil
			do()
		}
	}
	return m.Backend.Commit(ctx, batch)
}

func TestARunEndsThoughItsThreadIsDestroyedMeanwhile(t *testing.T) {
	ctx := t.Context()
	b := memstore.New()
	m := &meddler{Backend: b, event: "run.finished"}
	open := func(b journal.Backend) *thole.Space {
		store, err := thole.Open(ctx, b, &thole.Options{Concepts: []*thole.Concept{run.Concept}, Sweep: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store.Space("project:shop")
	}
	sp, other := open(m), open(b)
	rs := run.In(sp, nil)
	th, err := thread.In(sp).Create(ctx, &thread.CreateOptions{Assistant: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rs.Start(ctx, th.ID, run.Request{Prompt: "go"}); err != nil {
		t.Fatal(err)
	}
	h, err := rs.Claim(ctx, &run.ClaimOptions{Agent: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	m.before = func() {
		if err := thread.In(other).Destroy(ctx, th.ID, nil); err != nil {
			t.Error(err)
		}
	}
	if r, err := h.Finish(ctx, run.Failed, "it broke"); err != nil || !r.Ended() {
		t.Errorf("finish: got %+v, %v, want an ended run", r, err)
	}
}

// A run does not end because people change the files of its space.
func TestARunWaitsOnWhenFilesAreEdited(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	b, err := filestore.Open(ctx, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := thole.Open(ctx, b, &thole.Options{Concepts: []*thole.Concept{run.Concept}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	sp := store.Space("project:shop")
	rs := run.In(sp, nil)
	if _, err := sp.Commit(ctx, thole.Commit{Writes: []thole.Write{{Key: "k", Value: []byte(`"old"`)}}}); err != nil {
		t.Fatal(err)
	}
	th, err := thread.In(sp).Create(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := sp.Watch(ctx, &thole.WatchOptions{Types: []string{"run.waiting"}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ended := make(chan error, 1)
	go func() {
		ended <- rs.Do(ctx, th.ID, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
			_, err := h.Wait(ctx, "approval")
			return err
		})
	}()
	ds, err := w.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var e run.WaitingData
	if err := ds[0].As(&e); err != nil {
		t.Fatal(err)
	}
	if err := b.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "project", "shop", "records", "k.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte("old"), []byte("newer"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Next(ctx); !errors.Is(err, thole.ErrTrimmed) {
		t.Fatalf("a watcher: got %v, want ErrTrimmed", err)
	}
	if err := rs.Signal(ctx, e.Run, "approval", nil); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the run: got %v, want it running", err)
	}
}

package thole_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
)

// hooked is the backend of one of several processes; it calls the hooks that are set.
type hooked struct {
	kept
	purge  func(p thole.Purge, do func() error) error
	listed func(prefix string, recs []thole.Record) // after a List
}

func (h *hooked) Purge(ctx context.Context, space string, p thole.Purge) error {
	do := func() error { return h.kept.Purge(ctx, space, p) }
	if h.purge == nil {
		return do()
	}
	return h.purge(p, do)
}

func (h *hooked) List(ctx context.Context, space string, q thole.ListQuery) ([]thole.Record, error) {
	recs, err := h.kept.List(ctx, space, q)
	if h.listed != nil {
		h.listed(q.Prefix, recs)
	}
	return recs, err
}

// hookedPair opens two Stores on one backend; the hooks are on the first. Neither
// sweeps.
func hookedPair(t *testing.T) (h *hooked, ours, theirs *thole.Space) {
	t.Helper()
	h = &hooked{kept: kept{memstore.New()}}
	ours = openOn(t, h, &thole.Options{Sweep: -1}).Space("project:shop")
	theirs = openOn(t, h.kept, &thole.Options{Sweep: -1}).Space("project:shop")
	return h, ours, theirs
}

// add commits an event to a stream.
func add(t *testing.T, sp *thole.Space, stream string) thole.Position {
	t.Helper()
	res, err := sp.Commit(t.Context(), thole.Commit{Events: []thole.Event{{Stream: stream, Type: "a.b"}}})
	if err != nil {
		t.Fatal(err)
	}
	return res.Last
}

// holds checks which events are left in a stream.
func holds(t *testing.T, sp *thole.Space, stream string, want ...thole.Position) {
	t.Helper()
	var got []thole.Position
	for e, err := range sp.Events(t.Context(), thole.ReadQuery{Stream: stream}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Position)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %v, want %v", stream, got, want)
	}
}

var theLog = thole.Purge{Streams: []string{"app/log"}}

func TestAnErasureThatIsFinishedLaterKeepsWhatCameAfterIt(t *testing.T) {
	for name, repeats := range map[string]bool{"left to a sweep": false, "repeated by the caller": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, ours, theirs := hookedPair(t)
				h.purge = func(_ thole.Purge, do func() error) error {
					return errors.Join(do(), errors.New("the answer is lost"))
				}
				add(t, ours, "app/log")
				putFor(t, ours, thole.SnapshotKey("app/log", "1"), 1, time.Hour, false)
				if err := ours.Purge(t.Context(), theLog); err == nil {
					t.Fatal("the purge did not fail")
				}
				if h.purge = nil; repeats {
					if err := ours.Purge(t.Context(), theLog); err != nil {
						t.Fatal(err)
					}
				}
				later := add(t, theirs, "app/log")
				putFor(t, theirs, thole.SnapshotKey("app/log", "2"), 2, time.Hour, false)
				time.Sleep(11 * time.Second)
				if err := theirs.Store().Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
				holds(t, theirs, "app/log", later)
				snaps, err := theirs.List(t.Context(), thole.ListQuery{Prefix: "snap/"})
				if err != nil || len(snaps) != 1 || snaps[0].Key != thole.SnapshotKey("app/log", "2") {
					t.Errorf("the snapshots left are %v, %v; want the later one", snaps, err)
				}
				if n := left(t, theirs, "erased/"); n != 0 {
					t.Errorf("%d notes are left", n)
				}
			})
		})
	}
}

// A purge takes longer than its note lives. Another process begins the same purge and
// reaches the space long after the first has returned.
func TestAnErasureByTwoProcessesKeepsWhatCameAfterTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, ours, theirs := hookedPair(t)
		other := &hooked{kept: h.kept}
		sweeper := openOn(t, other, &thole.Options{Sweep: -1})
		first, second := make(chan bool), make(chan bool)
		h.purge = func(_ thole.Purge, do func() error) error { <-first; return do() }
		other.purge = func(_ thole.Purge, do func() error) error { <-second; return do() }
		add(t, ours, "app/log")
		purged, swept := make(chan error, 1), make(chan error, 1)
		go func() { purged <- ours.Purge(t.Context(), theLog) }()
		time.Sleep(11 * time.Second)
		go func() { swept <- sweeper.Sweep(t.Context()) }()
		synctest.Wait()
		close(first)
		if err := <-purged; err != nil {
			t.Fatal(err)
		}
		if n := left(t, theirs, "erased/"); n != 0 {
			t.Errorf("the first left %d notes", n)
		}
		later := add(t, theirs, "app/log")
		close(second)
		if err := <-swept; err != nil {
			t.Error(err)
		}
		holds(t, theirs, "app/log", later)
	})
}

// Another process removes the space after the erasure was noted: before the purge, or
// right after it.
func TestAnErasureLeavesAloneASpaceThatWasRemoved(t *testing.T) {
	for name, after := range map[string]bool{"before the purge": false, "after the purge": true} {
		for name2, anew := range map[string]bool{"": false, ", and made anew": true} {
			t.Run(name+name2, func(t *testing.T) {
				h, ours, theirs := hookedPair(t)
				add(t, ours, "app/log")
				var want []thole.Position
				h.purge = func(_ thole.Purge, do func() error) error {
					if after {
						if err := do(); err != nil {
							t.Error(err)
						}
					}
					if err := theirs.Purge(t.Context(), thole.Purge{All: true}); err != nil {
						t.Error(err)
					}
					if anew {
						want = append(want, add(t, theirs, "app/log"))
					}
					if after {
						return nil
					}
					return do()
				}
				if err := ours.Purge(t.Context(), theLog); err != nil && !errors.Is(err, thole.ErrNotFound) {
					t.Error(err)
				}
				holds(t, theirs, "app/log", want...)
				head, err := theirs.Head(t.Context())
				if err != nil || head.Last.Seq != uint64(len(want)) {
					t.Errorf("the space is at %v, %v; want nothing in it but %v", head.Last, err, want)
				}
			})
		}
	}
}

func TestAPurgeUpToAPositionKeepsWhatIsLater(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	upTo := add(t, sp, "app/log")
	later := add(t, sp, "app/log")
	putFor(t, sp, thole.SnapshotKey("app/log", "1"), 1, time.Hour, false)
	foreign := later
	foreign.Epoch = journal.NewEpoch(1)
	for _, p := range []thole.Position{foreign, upTo} {
		if err := sp.Purge(t.Context(), thole.Purge{Streams: theLog.Streams, UpTo: p}); err != nil {
			t.Fatal(err)
		}
		if p == foreign {
			holds(t, sp, "app/log", upTo, later)
		}
	}
	holds(t, sp, "app/log", later)
}

// slowPurge is a backend whose purges are slow; ctx may cut them short.
type slowPurge struct{ kept }

func (s slowPurge) Purge(ctx context.Context, space string, p thole.Purge) error {
	select {
	case <-time.After(5 * time.Minute):
		return s.kept.Purge(ctx, space, p)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestASweepFinishesAnErasureHoweverLongItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, ours, _ := hookedPair(t)
		add(t, ours, "app/log")
		h.purge = func(thole.Purge, func() error) error { return errors.New("killed") }
		if err := ours.Purge(t.Context(), theLog); err == nil {
			t.Fatal("the purge did not fail")
		}
		theirs := openOn(t, slowPurge{h.kept}, nil).Space("project:shop")
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		holds(t, theirs, "app/log")
		if n := left(t, theirs, "erased/"); n != 0 {
			t.Errorf("%d notes are left", n)
		}
	})
}

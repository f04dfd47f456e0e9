package thole_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
)

// gated opens a Store whose backend writes one batch for each value sent to the gate.
func gated(t *testing.T) (*thole.Space, *faults) {
	t.Helper()
	f := &faults{Backend: memstore.New(), gate: make(chan struct{})}
	s := openOn(t, f, &thole.Options{Sweep: -1})
	t.Cleanup(func() { close(f.gate) }) // before Close, which drains the queue
	return s.Space("project:shop"), f
}

func event(data any) thole.Commit {
	return thole.Commit{Events: []thole.Event{{Stream: "app/x", Type: "x.y", Data: fmt.Append(nil, data)}}}
}

func TestCommitsThatWaitTogetherAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp, f := gated(t)
		var wg sync.WaitGroup
		commit := func(i int) {
			wg.Go(func() {
				if _, err := sp.Commit(t.Context(), event(i)); err != nil {
					t.Error(err)
				}
			})
		}
		commit(0)
		synctest.Wait() // the first is being written
		for i := 1; i < 100; i++ {
			commit(i)
		}
		synctest.Wait()
		f.gate <- struct{}{}
		f.gate <- struct{}{}
		wg.Wait()
		got := f.commits()
		if len(got) != 2 || len(got[0]) != 1 || len(got[1]) != 99 {
			t.Errorf("got %d batches, want one of 1 and one of 99", len(got))
		}
	})
}

func TestACallerThatLeftTheQueueDoesNotCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp, f := gated(t)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := sp.Commit(t.Context(), event(1)); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		wg.Go(func() {
			if _, err := sp.Commit(ctx, event(2)); !errors.Is(err, gone) {
				t.Errorf("got %v, want the cause of the cancellation", err)
			}
		})
		synctest.Wait()
		cancel(gone)
		synctest.Wait()
		wg.Go(func() {
			if _, err := sp.Commit(t.Context(), event(3)); err != nil {
				t.Error(err)
			}
		})
		f.gate <- struct{}{}
		f.gate <- struct{}{}
		wg.Wait()
		page, err := sp.Read(t.Context(), thole.ReadQuery{})
		if err != nil || len(page.Events) != 2 || string(page.Events[1].Data) != "3" {
			t.Errorf("got %v, %v; want 1 and 3", page.Events, err)
		}
	})
}

func TestAnErrorOfABatchReachesAllItsCallersAndIsNotRetried(t *testing.T) {
	for _, w := range []when{before, after} {
		synctest.Test(t, func(t *testing.T) {
			sp, f := gated(t)
			f.breakCommit(2, w)
			var wg sync.WaitGroup
			for i := range 10 {
				wg.Go(func() {
					_, err := sp.Commit(t.Context(), event(i))
					if first := i == 0; first != (err == nil) || !first && !errors.Is(err, errFault) {
						t.Errorf("commit %d: got %v", i, err)
					}
				})
				if i == 0 {
					synctest.Wait()
				}
			}
			synctest.Wait()
			f.gate <- struct{}{}
			f.gate <- struct{}{}
			wg.Wait()
			if got := len(f.commits()); got != 2 {
				t.Errorf("got %d calls of the backend, want 2", got)
			}
		})
	}
}

func TestAConflictFailsNoNeighbour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp, f := gated(t)
		other := sp.Store().Space("user:1")
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				c := event(i)
				if i%2 == 1 {
					c.Checks = []thole.Check{{Key: "app/none", At: thole.Position{Epoch: journal.NewEpoch(1), Seq: 9}}}
				}
				space := sp
				if i%3 == 0 {
					space = other
				}
				_, err := space.Commit(t.Context(), c)
				if i%2 == 1 && !errors.Is(err, thole.ErrConflict) || i%2 == 0 && err != nil {
					t.Errorf("commit %d: got %v", i, err)
				}
			})
			if i == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		f.gate <- struct{}{}
		f.gate <- struct{}{}
		wg.Wait()
		if got := len(f.commits()); got != 2 {
			t.Errorf("got %d batches, want 2", got)
		}
	})
}

func TestABatchIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp, f := gated(t)
		var wg sync.WaitGroup
		const callers = 3000
		for i := range callers {
			wg.Go(func() {
				if _, err := sp.Commit(t.Context(), event(i)); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		sent := 0
		for sent < callers {
			f.gate <- struct{}{}
			synctest.Wait()
			batches := f.commits()
			n := len(batches[len(batches)-1])
			if n > 1024 {
				t.Errorf("a batch of %d commits", n)
			}
			sent += n
		}
		wg.Wait()
	})
}

// short is a backend that loses the last result of a batch.
type short struct{ journal.Backend }

func (s short) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	res, err := s.Backend.Commit(ctx, batch)
	return res[:len(res)-1], err
}

func TestABackendThatLosesAResultIsAnError(t *testing.T) {
	s := openOn(t, short{memstore.New()}, nil)
	if _, err := s.Space("user:1").Commit(t.Context(), event(1)); err == nil {
		t.Error("got no error")
	}
}

func TestCloseDrainsTheQueueAndIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faults{Backend: memstore.New(), gate: make(chan struct{}, 10)}
		kept := f.Backend
		f.shared = true
		s := openOn(t, f, nil)
		sp := s.Space("user:1")
		w, err := sp.Watch(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() {
				if _, err := sp.Commit(context.Background(), event(i)); err != nil {
					t.Errorf("queued before Close: got %v", err)
				}
			})
			synctest.Wait()
		}
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
		synctest.Wait()
		f.gate <- struct{}{}
		f.gate <- struct{}{}
		wg.Wait()
		if err := s.Close(); err != nil {
			t.Errorf("Close again: %v", err)
		}
		if page, err := kept.Read(t.Context(), "user:1", thole.ReadQuery{}); err != nil || len(page.Events) != 2 {
			t.Errorf("got %d events, %v; want 2", len(page.Events), err)
		}
		kept.Close()
		if _, err := w.Next(t.Context()); !errors.Is(err, thole.ErrClosed) {
			t.Errorf("Next: got %v, want ErrClosed", err)
		}
		w.Close()
		for name, err := range afterClose(t, s) {
			if !errors.Is(err, thole.ErrClosed) {
				t.Errorf("%s: got %v, want ErrClosed", name, err)
			}
		}
	})
}

func afterClose(t *testing.T, s *thole.Store) map[string]error {
	sp, ctx := s.Space("user:1"), t.Context()
	errs := map[string]error{}
	_, errs["Commit"] = sp.Commit(ctx, event(1))
	errs["Update"] = increment(ctx, sp)
	_, errs["Get"] = sp.Get(ctx, "k")
	_, errs["List"] = sp.List(ctx, thole.ListQuery{})
	_, errs["Read"] = sp.Read(ctx, thole.ReadQuery{})
	_, errs["Head"] = sp.Head(ctx)
	_, errs["Watch"] = sp.Watch(ctx, nil)
	_, errs["Spaces"] = s.Spaces(ctx, thole.SpacesQuery{})
	errs["Purge"] = sp.Purge(ctx, thole.Purge{All: true})
	for _, err := range sp.Events(ctx, thole.ReadQuery{}) {
		errs["Events"] = err
	}
	for _, err := range sp.Records(ctx, "") {
		errs["Records"] = err
	}
	return errs
}

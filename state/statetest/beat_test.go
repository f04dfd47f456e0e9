package statetest_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/all"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// shared is a backend of several Stores.
type shared struct{ journal.Backend }

func (shared) Close() error { return nil }

// machine opens a Store that sweeps, on a machine whose clock is off.
func machine(t *testing.T, b journal.Backend, off time.Duration) *thole.Store {
	t.Helper()
	s, err := thole.Open(context.Background(), shared{b}, &thole.Options{Concepts: all.Concepts(),
		Now: func() time.Time { return time.Now().Add(off) }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// claimed starts a run on s and claims it.
func claimed(t *testing.T, s *thole.Store) *run.Handle {
	t.Helper()
	sp := s.Space("project:x")
	th, err := thread.In(sp).Create(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.In(sp, nil).Start(t.Context(), th.ID, run.Request{Prompt: "hi"}); err != nil {
		t.Fatal(err)
	}
	h, err := run.In(sp, nil).Claim(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A machine boots with its clock an hour behind and opens the store. It reads the
// leases that others hold and renew, and sweeps; they stay theirs.
func TestAMachineBehindThatStartsEndsNoLiveLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memstore.New()
		us, _ := machine(t, b, 0), machine(t, b, 0)
		h := claimed(t, us)
		l, err := lock.In(us.Space("project:x")).Acquire(t.Context(), "f", &lock.Options{Owner: "me"})
		if err != nil {
			t.Fatal(err)
		}
		_, stop := l.Keep(t.Context())
		defer stop()
		behind := machine(t, b, -time.Hour)
		for range 30 {
			time.Sleep(5 * time.Second)
			if err := h.Heartbeat(t.Context()); err != nil {
				t.Fatalf("the worker: %v", err)
			}
			if r, err := run.In(behind.Space("project:x"), nil).Get(t.Context(), h.ID()); err != nil || r.Status != run.Running {
				t.Fatalf("the run is %v, %v", r, err)
			}
			if _, err := lock.In(behind.Space("project:x")).Acquire(t.Context(), "f", &lock.Options{Owner: "thief"}); !errors.Is(err, thole.ErrConflict) {
				t.Fatalf("the lock: got %v, want ErrConflict", err)
			}
		}
		if err := l.Renew(t.Context()); err != nil {
			t.Errorf("the lock's holder: %v", err)
		}
	})
}

// The worker dies on a machine a day ahead. One read of the run is enough: the run ends
// a lease later, and the runs that wait behind it are notified.
func TestARunOfADeadMachineAheadEndsAfterOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memstore.New()
		ahead := machine(t, b, 24*time.Hour)
		h := claimed(t, ahead)
		if err := ahead.Close(); err != nil {
			t.Fatal(err)
		}
		runs := run.In(machine(t, b, 0).Space("project:x"), nil)
		if r, err := runs.Get(t.Context(), h.ID()); err != nil || r.Status != run.Running {
			t.Fatalf("at the first read the run is %v, %v", r, err)
		}
		time.Sleep(29 * time.Second)
		if r, err := runs.Peek(t.Context(), h.ID()); err != nil || r.Status != run.Running {
			t.Errorf("within its lease the run is %v, %v", r, err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if r, err := runs.Peek(t.Context(), h.ID()); err != nil || r.Status != run.Crashed {
			t.Errorf("after its lease the run is %v, %v", r, err)
		}
	})
}

// An application may name an entry beat, and give it a ttl_ms.
func TestAKvEntryCalledBeatLivesAsLongAsItWasSetFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memstore.New()
		entries := kv.In(machine(t, b, 0).Space("project:x"))
		if _, err := entries.Set(t.Context(), "worker-7", "beat", map[string]any{"ttl_ms": 1000}, &kv.SetOptions{TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		machine(t, b, 0)
		time.Sleep(59 * time.Minute)
		if e, err := entries.Get(t.Context(), "worker-7", "beat"); err != nil || !e.Exists {
			t.Errorf("set for an hour, after 59 minutes: %+v, %v", e, err)
		}
	})
}

// lists counts the calls of List.
type lists struct {
	journal.Backend
	n atomic.Int64
}

func (l *lists) List(ctx context.Context, space string, q thole.ListQuery) ([]thole.Record, error) {
	l.n.Add(1)
	return l.Backend.List(ctx, space, q)
}

// A store opens at once, however large it is.
func TestAProcessThatStartsListsNoRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memstore.New()
		for i := range 10 {
			sp := machine(t, b, 0).Space("project:" + string(rune('a'+i)))
			if _, err := kv.In(sp).Set(t.Context(), "n", "k", 1, &kv.SetOptions{TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		l := &lists{Backend: b}
		machine(t, l, 0)
		time.Sleep(time.Minute)
		if n := l.n.Load(); n != 0 {
			t.Errorf("a process that starts reads %d lists, although nothing is due", n)
		}
	})
}

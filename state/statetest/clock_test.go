package statetest_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/all"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/statetest"
)

// lines is a log that several goroutines write.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func acquire(t *testing.T, s *thole.Store, base, holder string) error {
	t.Helper()
	_, err := s.Space("project:shop").Update(t.Context(), func(tx *thole.Tx) error {
		tx.Emit("app/x", "x.y", holder)
		_, err := tx.Acquire(base, holder, 30*time.Second)
		return err
	})
	return err
}

// A second machine writes with a clock that is a day ahead or behind. The first one's
// leases and ttls end by its own clock, and its log warns the operator. The machine
// that is behind also reads the lease again and again, and sweeps. (What a machine that
// is ahead ends, it ends correctly by its own clock: see decision 4.)
func TestAWrongClockElsewhereEndsNoLeaseAndNoTTL(t *testing.T) {
	for name, off := range map[string]time.Duration{"ahead": 24 * time.Hour, "behind": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			statetest.Each(t, func(t *testing.T, e *statetest.Env) {
				log := new(lines)
				us := e.Second(&thole.Options{Concepts: all.Concepts(), Now: e.Clock.Now, Sweep: -1, Logger: slog.New(slog.NewTextHandler(log, nil))})
				them := e.Second(&thole.Options{Concepts: all.Concepts(), Now: func() time.Time { return e.Clock.Now().Add(off) }, Sweep: -1})
				if err := acquire(t, us, "app/ours", "us"); err != nil {
					t.Fatal(err)
				}
				if _, err := kv.In(us.Space("project:shop")).Set(t.Context(), "n", "k", 1, &kv.SetOptions{TTL: time.Minute}); err != nil {
					t.Fatal(err)
				}
				began := us.Now()
				if err := acquire(t, them, "app/theirs", "them"); err != nil {
					t.Fatal(err)
				}
				for range 3 { // read what the others wrote, again and again
					if _, err := us.Space("project:shop").List(t.Context(), thole.ListQuery{}); err != nil {
						t.Fatal(err)
					}
				}
				if moved := us.Now().Sub(began); moved != 0 {
					t.Errorf("one record moved the clock by %v", moved)
				}
				look := func() {
					t.Helper()
					if off > 0 {
						return
					}
					if err := acquire(t, them, "app/ours", "them"); !errors.Is(err, thole.ErrConflict) {
						t.Errorf("a machine that is behind took a live lease: %v", err)
					}
					if err := them.Sweep(t.Context()); err != nil {
						t.Error(err)
					}
				}
				look()
				if off > 0 && (log.count("ahead of this machine's clock") != 1 || log.count("app/theirs") != 1 || us.ClockLead() < 23*time.Hour) {
					t.Errorf("the log has %q, and the lead is %v; want one warning that names the record", log.b.String(), us.ClockLead())
				}
				if off < 0 && us.ClockLead() != 0 {
					t.Errorf("a clock that is behind is reported as %v ahead", us.ClockLead())
				}
				e.Clock.Advance(20 * time.Second)
				look()
				if err := acquire(t, us, "app/ours", "thief"); !errors.Is(err, thole.ErrConflict) {
					t.Errorf("a lease of 30 s was stolen after 20 s: %v", err)
				}
				e.Clock.Advance(30 * time.Second)
				if v, err := kv.In(us.Space("project:shop")).Get(t.Context(), "n", "k"); err != nil || !v.Exists {
					t.Errorf("a value of a minute is gone after 50 s: %+v, %v", v, err)
				}
				e.Clock.Advance(11 * time.Second)
				if v, err := kv.In(us.Space("project:shop")).Get(t.Context(), "n", "k"); err != nil || v.Exists {
					t.Errorf("a value of a minute is there after 61 s: %+v, %v", v, err)
				}
				if err := acquire(t, us, "app/ours", "next"); err != nil {
					t.Errorf("a lease of 30 s is held after 61 s: %v", err)
				}
			})
		})
	}
}

// The holder died on a machine whose clock was wrong, or it lives there.
func TestALeaseWrittenADayAheadEndsAfterItsTTL(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		them := e.Second(&thole.Options{Concepts: all.Concepts(), Now: func() time.Time { return e.Clock.Now().Add(24 * time.Hour) }, Sweep: -1})
		if err := acquire(t, them, "app/job", "them"); err != nil {
			t.Fatal(err)
		}
		if err := acquire(t, e.Store, "app/job", "us"); !errors.Is(err, thole.ErrConflict) {
			t.Fatalf("at the first read: got %v, want ErrConflict", err)
		}
		e.Clock.Advance(20 * time.Second)
		if err := acquire(t, e.Store, "app/job", "us"); !errors.Is(err, thole.ErrConflict) {
			t.Fatalf("before its ttl: got %v, want ErrConflict", err)
		}
		e.Clock.Advance(11 * time.Second)
		if err := acquire(t, e.Store, "app/job", "us"); err != nil {
			t.Errorf("after its ttl: %v", err)
		}
	})
}

// Two machines, a day apart, read a lease that a third one holds. A lease that is
// renewed stays its holder's; one that is not can be taken also by the machine that is
// behind.
func TestAHolderThatRenewsKeepsItsLeaseWhateverTheClockOfAReader(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		behind := e.Second(&thole.Options{Concepts: all.Concepts(), Now: func() time.Time { return e.Clock.Now().Add(-24 * time.Hour) }, Sweep: -1})
		var f thole.Fence
		sp := e.Store.Space("project:shop")
		res, err := sp.Update(t.Context(), func(tx *thole.Tx) (err error) { f, err = tx.Acquire("app/ours", "us", 30*time.Second); return })
		if err != nil {
			t.Fatal(err)
		}
		f = f.At(res)
		right := e.Second(nil)
		for range 10 {
			for range 2 {
				for _, s := range []*thole.Store{behind, right} {
					if err := acquire(t, s, "app/ours", "them"); !errors.Is(err, thole.ErrConflict) {
						t.Fatalf("a lease that is renewed in time: got %v, want ErrConflict", err)
					}
				}
				e.Clock.Advance(10 * time.Second)
			}
			if err := sp.Renew(t.Context(), f, 30*time.Second); err != nil {
				t.Fatalf("the holder: %v", err)
			}
		}
		if err := acquire(t, behind, "app/ours", "them"); !errors.Is(err, thole.ErrConflict) {
			t.Fatalf("a lease that was renewed just now: got %v, want ErrConflict", err)
		}
		e.Clock.Advance(31 * time.Second)
		if err := acquire(t, behind, "app/ours", "them"); err != nil {
			t.Errorf("a lease that stood still for its ttl: %v", err)
		}
	})
}

// Here the leases are as short as the difference that clocks may have.
func TestAShortLeaseIsNotCutByATimeFromTheFuture(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		future := e.Second(&thole.Options{Concepts: all.Concepts(), Now: func() time.Time { return e.Clock.Now().Add(24 * time.Hour) }, Sweep: -1})
		other := e.Second(nil)
		if err := acquire(t, future, "app/theirs", "them"); err != nil {
			t.Fatal(err)
		}
		sp := e.Store.Space("project:shop")
		_, err := sp.Update(t.Context(), func(tx *thole.Tx) error { _, err := tx.Acquire("app/ours", "us", 5*time.Second); return err })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Space("project:shop").List(t.Context(), thole.ListQuery{}); err != nil {
			t.Fatal(err)
		}
		e.Clock.Advance(4 * time.Second)
		if err := other.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := acquire(t, other, "app/ours", "thief"); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("a lease of 5 s after 4 s: got %v, want ErrConflict", err)
		}
		e.Clock.Advance(time.Second)
		if err := acquire(t, other, "app/ours", "next"); err != nil {
			t.Errorf("a lease of 5 s after 5 s: %v", err)
		}
	})
}

// A machine whose clock is right repeats, for 23 h, what a machine that is 25 h behind
// carried out.
func TestAReceiptOfAMachineBehindLastsADayForOthers(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		if _, err := kv.In(e.Store.Space("project:shop")).Set(t.Context(), "n", "k", 1, &kv.SetOptions{TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		log := new(lines)
		behind := e.Second(&thole.Options{Concepts: all.Concepts(), Now: func() time.Time { return e.Clock.Now().Add(-25 * time.Hour) }, Sweep: -1,
			Logger: slog.New(slog.NewTextHandler(log, nil))})
		if log.count("level=ERROR") != 1 || log.count("or this one is behind") != 1 || behind.ClockLead() < 24*time.Hour {
			t.Errorf("on a machine that is behind, the log has %q, and the lead is %v", log.b.String(), behind.ClockLead())
		}
		ctx := thole.WithIdempotencyKey(t.Context(), "pay-1", "fp")
		charge := func(s *thole.Store) {
			t.Helper()
			_, err := s.Space("project:shop").As("user:1").Commit(ctx, thole.Commit{Events: []thole.Event{{Stream: "app/x", Type: "app.charged"}}})
			if err != nil {
				t.Fatal(err)
			}
		}
		charge(behind)
		charge(behind)
		charge(e.Store)
		e.Clock.Advance(23 * time.Hour)
		charge(e.Store)
		n := 0
		for _, err := range e.Store.Space("project:shop").Events(t.Context(), thole.ReadQuery{Stream: "app/x"}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 1 {
			t.Errorf("charged %d times under one idempotency key", n)
		}
	})
}

// The machine's clock changes during the process, and during a restart.
func TestAClockThatJumpsForwardAndBackGoesOn(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		var mu sync.Mutex
		var off time.Duration
		set := func(d time.Duration) { mu.Lock(); off = d; mu.Unlock() }
		now := func() time.Time { mu.Lock(); defer mu.Unlock(); return e.Clock.Now().Add(off) }
		s := e.Second(&thole.Options{Concepts: all.Concepts(), Now: now, Sweep: -1})
		last := s.Now()
		for _, d := range []time.Duration{24 * time.Hour, 0, -time.Hour, time.Hour} {
			s.Now() // time that passes before a step back, and that nobody reads, cannot be told from the step
			set(d)
			if err := acquire(t, s, "app/job", "a"); err != nil {
				t.Fatal(err)
			}
			if n := s.Now(); n.Before(last) {
				t.Errorf("with the clock at %v time went back from %v to %v", d, last, n)
			} else {
				last = n
			}
			e.Clock.Advance(31 * time.Second)
			if err := acquire(t, s, "app/job", "b"); err != nil {
				t.Errorf("with the clock at %v a lease outlived its ttl: %v", d, err)
			}
			e.Clock.Advance(31 * time.Second)
		}
		s.Now()
		set(0)
		if err := acquire(t, s, "app/job", "a"); err != nil { // a day ahead by now
			t.Fatal(err)
		}
		again := e.Second(&thole.Options{Concepts: all.Concepts(), Now: now, Sweep: -1})
		if n := again.Now(); n.Sub(now()) > 5*time.Second {
			t.Errorf("after a restart the time is %v, %v ahead of the machine's clock", n, n.Sub(now()))
		}
		_ = acquire(t, again, "app/job", "b") // reads it
		e.Clock.Advance(31 * time.Second)
		if err := acquire(t, again, "app/job", "b"); err != nil {
			t.Errorf("after a restart a lease outlived its ttl: %v", err)
		}
	})
}

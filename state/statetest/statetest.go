// Package statetest gives the tests of concepts a store on every backend, with a clock
// that they move, and counts the tests on each backend.
package statetest

import (
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/all"
)

// Env is a store under test.
type Env struct {
	*thole.Store
	Clock *Clock
	// Wrap, if set, wraps the backend from the next [Env.Reopen] on.
	Wrap func(journal.Backend) journal.Backend
	// Concepts are given to the store beside those of Thole, from the next [Env.Reopen]
	// on.
	Concepts []*thole.Concept

	name string // of the backend
	t    *testing.T
	open opener
}

// Clock is a wall clock that stands still until it is moved.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// ClockAt returns a clock that shows now.
func ClockAt(now time.Time) *Clock { return &Clock{now: now} }

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward by d.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Each runs promise once per backend, on a fresh store whose clock stands still and
// which sweeps only when told to. Package effort decides which backends: mem, sqlite,
// file, remote (a server on SQLite in this process), postgres, pgbouncer and
// remote-postgres, or some of them.
func Each(t *testing.T, promise func(t *testing.T, e *Env)) {
	t.Helper()
	on(t, backends(), func(t *testing.T, e *Env) {
		count(t, e.name)
		promise(t, e)
	})
}

// Deep is Each for a promise whose test takes long: it runs in memory in a plain go
// test, on SQLite in make test, and on all backends in make soak. It is not counted
// in the matrix.
func Deep(t *testing.T, promise func(t *testing.T, e *Env)) {
	t.Helper()
	on(t, deep(), promise)
}

func on(t *testing.T, backends []backend, promise func(t *testing.T, e *Env)) {
	t.Helper()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			e := &Env{name: b.name, Clock: &Clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}, t: t}
			e.open = b.prepare(t, e.Clock)
			e.start()
			t.Cleanup(e.stop)
			promise(t, e)
		})
	}
}

func (e *Env) start() {
	e.t.Helper()
	b, err := e.open()
	if err != nil {
		e.t.Fatalf("open backend: %v", err)
	}
	if e.Wrap != nil {
		b = e.Wrap(b)
	}
	e.Store = openStore(e.t, b, e.Clock, e.Concepts...)
}

// Second opens another Store on the same data, as another process would, with a clock
// of its own; opts nil: the options of Each. It is closed at the end of the test.
func (e *Env) Second(opts *thole.Options) *thole.Store {
	e.t.Helper()
	if opts == nil {
		opts = &thole.Options{Concepts: all.Concepts(), Now: e.Clock.Now, Sweep: -1}
	}
	b, err := e.open()
	if err != nil {
		e.t.Fatalf("open backend: %v", err)
	}
	s, err := thole.Open(e.t.Context(), b, opts)
	if err != nil {
		e.t.Fatalf("open store: %v", err)
	}
	e.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			e.t.Errorf("close the second store: %v", err)
		}
	})
	return s
}

// openStore opens a store that sweeps only when told to.
func openStore(t testing.TB, b journal.Backend, clock *Clock, more ...*thole.Concept) *thole.Store {
	t.Helper()
	s, err := thole.Open(t.Context(), b, &thole.Options{Concepts: append(all.Concepts(), more...), Now: clock.Now, Sweep: -1})
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	return s
}

func (e *Env) stop() {
	if err := e.Store.Close(); err != nil {
		e.t.Errorf("close store: %v", err)
	}
}

// Reopen closes the store and opens another one on the same data.
func (e *Env) Reopen() {
	e.t.Helper()
	e.stop()
	e.start()
}

// Beside opens another Store on the same data, as a second process would, and closes it
// at the end of the test.
func (e *Env) Beside() *thole.Store {
	e.t.Helper()
	other := *e
	other.Wrap = nil
	other.start()
	e.t.Cleanup(other.stop)
	return other.Store
}

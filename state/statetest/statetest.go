// Package statetest gives the tests of concepts a store on every backend, with a
// clock that they move, and counts what ran on each.
package statetest

import (
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
)

// Env is one store under test.
type Env struct {
	*thole.Store
	Clock *Clock

	t    *testing.T
	open opener
}

// Clock is a wall clock that stands still until it is moved.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock on by d.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Each runs promise once per backend, on a fresh store whose clock stands still
// and which sweeps only when told to. The backends are mem, sqlite, file and
// remote (a server on SQLite in this process); where the environment says
// THOLE_TEST=all, also postgres, pgbouncer and remote-postgres, whose programs
// must then be there; where it says few, mem and remote only.
func Each(t *testing.T, promise func(t *testing.T, e *Env)) {
	t.Helper()
	for _, b := range backends() {
		t.Run(b.name, func(t *testing.T) {
			count(t, b.name)
			e := &Env{Clock: &Clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}, t: t}
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
	e.Store = openStore(e.t, b, e.Clock)
}

// openStore opens a store that sweeps only when told to.
func openStore(t testing.TB, b thole.Backend, clock *Clock) *thole.Store {
	t.Helper()
	s, err := thole.Open(t.Context(), b, &thole.Options{Now: clock.Now, Sweep: -1})
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

// Reopen closes the store and opens another on what it left.
func (e *Env) Reopen() {
	e.t.Helper()
	e.stop()
	e.start()
}

// Package statetest gives the tests of concepts a store on every embedded
// backend, with a clock that they move.
package statetest

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/sqlitestore"
)

// Env is one store under test.
type Env struct {
	*thole.Store
	Clock *Clock

	t    *testing.T
	open func() (thole.Backend, error)
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

// kept is a memory backend that outlives the Store on it, so that it can be
// opened again as a file could.
type kept struct{ *memstore.Store }

// Close does nothing.
func (kept) Close() error { return nil }

// Each runs promise once per embedded backend, on a fresh store whose clock
// stands still and which sweeps only when told to.
func Each(t *testing.T, promise func(t *testing.T, e *Env)) {
	t.Helper()
	backends := []struct {
		name string
		open func(dir string) func() (thole.Backend, error)
	}{
		{"mem", func(string) func() (thole.Backend, error) {
			b := kept{memstore.New()}
			return func() (thole.Backend, error) { return b, nil }
		}},
		{"sqlite", func(dir string) func() (thole.Backend, error) {
			return func() (thole.Backend, error) {
				return sqlitestore.Open(context.Background(), filepath.Join(dir, "store.db"), nil)
			}
		}},
	}
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			e := &Env{
				Clock: &Clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
				t:     t, open: b.open(t.TempDir()),
			}
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
	e.Store, err = thole.Open(e.t.Context(), b, &thole.Options{Now: e.Clock.Now, Sweep: -1})
	if err != nil {
		e.t.Fatalf("open store: %v", err)
	}
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

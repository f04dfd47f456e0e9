package statetest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

// ErrDead is the error of a process's store from its death on.
var ErrDead = fmt.Errorf("the process is dead: %w", thole.ErrClosed)

// Cut is where a process dies: at its n-th commit, counted from 1, before that commit
// is applied, or after it was applied and before it returns.
type Cut struct {
	Commit  int
	Applied bool
	Once    bool // only that commit fails; the process continues
}

// Mortal is the backend of a process that dies when told to: from then on its reads and
// commits return ErrDead.
type Mortal struct {
	journal.Backend

	mu    sync.Mutex
	cut   Cut
	count int
	dead  bool
}

// DieAt makes the process die at cut, whose commits are counted from now.
func (m *Mortal) DieAt(cut Cut) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut, m.count = cut, 0
}

// Died reports whether the process has died.
func (m *Mortal) Died() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

func (m *Mortal) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	m.mu.Lock()
	m.count++
	now := m.count == m.cut.Commit
	if m.dead || now && !m.cut.Applied {
		m.dead = !m.cut.Once
		m.mu.Unlock()
		return nil, ErrDead
	}
	m.dead = m.dead || now && !m.cut.Once
	m.mu.Unlock()
	res, err := m.Backend.Commit(ctx, batch)
	if now {
		return nil, ErrDead
	}
	return res, err
}

func (m *Mortal) Get(ctx context.Context, space string, keys ...string) ([]thole.Record, error) {
	if m.Died() {
		return nil, ErrDead
	}
	return m.Backend.Get(ctx, space, keys...)
}

func (m *Mortal) List(ctx context.Context, space string, q thole.ListQuery) ([]thole.Record, error) {
	if m.Died() {
		return nil, ErrDead
	}
	return m.Backend.List(ctx, space, q)
}

// Mortal reopens the store in a process that dies when told to. [Env.Reopen] starts
// another process.
func (e *Env) Mortal() *Mortal {
	e.t.Helper()
	e.stop()
	b, err := e.open()
	if err != nil {
		e.t.Fatalf("open backend: %v", err)
	}
	m := &Mortal{Backend: b}
	e.Store = openStore(e.t, m, e.Clock, e.Concepts...)
	return m
}

// DieAt reopens the store in a process that will die at cut. The returned function
// reports whether it has died.
func (e *Env) DieAt(cut Cut) (died func() bool) {
	e.t.Helper()
	m := e.Mortal()
	m.DieAt(cut)
	return m.Died
}

// AtEachCut calls what with each place at which an operation can die, one after the
// other, until the place is after its last commit. what reports whether the process has
// died.
func AtEachCut(what func(cut Cut) (died bool)) {
	for n := 1; ; n++ {
		what(Cut{Commit: n, Applied: true})
		if !what(Cut{Commit: n}) {
			return
		}
	}
}

// meddled is a backend that calls a function right before a commit.
type meddled struct {
	journal.Backend
	event string
	do    func()
	once  sync.Once
}

func (m *meddled) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	for _, c := range batch {
		if slices.ContainsFunc(c.Events, func(e thole.Event) bool { return e.Type == m.event }) {
			m.once.Do(m.do)
		}
	}
	return m.Backend.Commit(ctx, batch)
}

// Between reopens the store so that do runs, with the store of another process, right
// before the first commit with an event of the given type, after everything that the
// commit depends on was read.
func (e *Env) Between(event string, do func(other *thole.Store)) {
	e.t.Helper()
	e.stop()
	mine, err := e.open()
	if err != nil {
		e.t.Fatalf("open backend: %v", err)
	}
	theirs, err := e.open()
	if err != nil {
		e.t.Fatalf("open backend: %v", err)
	}
	other := openStore(e.t, theirs, e.Clock, e.Concepts...)
	e.t.Cleanup(func() {
		if err := other.Close(); err != nil {
			e.t.Errorf("close the other store: %v", err)
		}
	})
	e.Store = openStore(e.t, &meddled{Backend: mine, event: event, do: func() { do(other) }}, e.Clock, e.Concepts...)
}

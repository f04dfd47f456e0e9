package statetest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/thole-dev/thole"
)

// ErrDead is what a process sees of its store from its death on.
var ErrDead = errors.New("the process is dead")

// Cut is a place at which a process dies: at its n-th commit, counted from 1,
// before that is applied or after, with the answer lost.
type Cut struct {
	Commit  int
	Applied bool
	Once    bool // only that commit fails; the process lives on
}

// mortal is a backend whose commits fail from the cut on.
type mortal struct {
	thole.Backend

	mu    sync.Mutex
	cut   Cut
	count int
	dead  bool
}

func (m *mortal) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
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

// DieAt reopens the store in a process that will die at cut: from then on its
// commits fail, until [Env.Reopen] starts another. The returned function reports
// whether it has died.
func (e *Env) DieAt(cut Cut) (died func() bool) {
	e.t.Helper()
	e.stop()
	b, err := e.open()
	if err != nil {
		e.t.Fatalf("open backend: %v", err)
	}
	m := &mortal{Backend: b, cut: cut}
	e.Store = openStore(e.t, m, e.Clock)
	return func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.dead
	}
}

// AtEachCut calls what with one place after the other at which an operation can
// die, until one is behind its last commit: what reports whether it has died.
func AtEachCut(what func(cut Cut) (died bool)) {
	for n := 1; ; n++ {
		what(Cut{Commit: n, Applied: true})
		if !what(Cut{Commit: n}) {
			return
		}
	}
}

// meddled is a backend on which something happens right before a commit.
type meddled struct {
	thole.Backend
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

// Between reopens the store so that do happens right before the first commit with
// an event of the given type: after all that the commit was concluded from was
// read. It is given the store of another process.
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
	other := openStore(e.t, theirs, e.Clock)
	e.t.Cleanup(func() {
		if err := other.Close(); err != nil {
			e.t.Errorf("close the other store: %v", err)
		}
	})
	e.Store = openStore(e.t, &meddled{Backend: mine, event: event, do: func() { do(other) }}, e.Clock)
}

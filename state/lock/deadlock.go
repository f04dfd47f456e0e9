package lock

import (
	"strings"

	"github.com/thole-dev/thole"
)

// Wait is an owner that waits for a lock.
type Wait struct {
	Owner string `json:"owner"`
	Lock  string `json:"lock"`
}

// DeadlockError reports a wait that would close a cycle: each owner waits for a lock that
// the next one holds, and the last for a lock of the first. It unwraps to ErrDeadlock.
type DeadlockError struct{ Cycle []Wait }

func (e *DeadlockError) Error() string {
	var b strings.Builder
	b.WriteString("deadlock: ")
	for _, w := range e.Cycle {
		b.WriteString(w.Owner + " waits for " + w.Lock + ", held by ")
	}
	b.WriteString(e.Cycle[0].Owner)
	return b.String()
}

// Unwrap returns ErrDeadlock.
func (e *DeadlockError) Unwrap() error { return thole.ErrDeadlock }

// maxChain bounds how many waits one check follows, so that its commit stays small. Every
// waiter repeats the check, so another one may find a longer cycle.
const maxChain = 40

// deadlock follows the wait-for graph from the lock that the caller wants, and returns a
// *DeadlockError if it leads back to the caller. Everything read is checked at the
// commit, so of two concurrent waits that close a cycle, one sees the other.
func (a *attempt) deadlock(tx *thole.Tx) error {
	seen := make(map[party]bool)
	var follow func(lock string, path []Wait) error
	follow = func(lock string, path []Wait) error {
		l, err := tx.Lease(lock)
		holder := party{Owner: l.Holder, Actor: l.Actor}
		if err != nil || !l.Alive || seen[holder] || len(seen) >= maxChain {
			return err // a dead holder is about to be replaced
		}
		if l.IsOf(a.locks.sp.Actor(), a.opts.Owner) {
			return &DeadlockError{Cycle: path}
		}
		seen[holder] = true
		var edges []edge
		if _, err := tx.Load(holder.edgesKey(), &edges); err != nil {
			return err
		}
		for _, e := range edges {
			alive, err := tx.Get(signKey(e.Lock, e.Ticket))
			if err != nil {
				return err
			}
			if !alive.Exists() {
				continue
			}
			if err := follow(e.Lock, append(path[:len(path):len(path)], Wait{Owner: l.Holder, Lock: e.Name})); err != nil {
				return err
			}
		}
		return nil
	}
	return follow(a.base, []Wait{{Owner: a.opts.Owner, Lock: a.name}})
}

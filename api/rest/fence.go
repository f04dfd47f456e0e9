package rest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// A request proves by the tokens in Thole-Fence that its caller holds leases. A
// token says nothing of what else the caller may do: grants and the privacy of
// threads do. See docs/decisions/0018.

// errLost is said of every fence that does not hold: a lease that has ended, a
// wrong secret, no such lease at all.
var errLost = fmt.Errorf("%w: a lease of Thole-Fence has ended or has another holder", thole.ErrFenced)

// enterWithFences checks the request's fences and the thread in its path. For a
// caller that may not know of the thread the answer is the same whether or not
// the fences hold, and whether or not there is such a thread.
func (c *call) enterWithFences() error {
	lost, ended := c.prove()
	err := c.enterThread()
	if ended && lost == nil && err != nil {
		lost = errLost
	}
	if errors.Is(err, thole.ErrNotFound) && lost != nil && c.mayWork(c.space.Name(), c.r.PathValue("thread")) {
		return lost // a worker is told to stop, in whatever thread
	}
	if err != nil {
		return err
	}
	return lost
}

// prove checks that the caller holds the leases of the request's fences. One that has
// ended may only get a first answer: under an idempotency key the request goes on, and
// unless it is a repeat the fence keeps it from committing anything.
func (c *call) prove() (lost error, ended bool) {
	for _, f := range c.fences {
		err := c.space.Prove(c.ctx, f)
		if errors.Is(err, thole.ErrFenced) {
			rec, readErr := c.space.Get(c.ctx, f.Key)
			over := readErr == nil && rec.Version != f.Token
			switch err = errLost; {
			case readErr != nil:
				err = readErr
			case over && c.keyed(), over && c.op.ends && !rec.Exists():
				ended, err = true, nil
			}
		}
		if err == nil {
			c.proven = append(c.proven, f)
		} else if lost == nil {
			lost = err
		}
	}
	return lost, ended
}

// mayWork reports whether a grant lets the caller do what the workers of runs in
// the thread do, although the thread is private and not its own. A grant for a
// thread is one for its sub-agents' threads.
func (c *call) mayWork(space, thread string) bool {
	scope, err := c.allowed(space, auth.Work)
	return err == nil && c.within(space, thread, scope.Thread)
}

// worksIn reports whether the caller is the worker of a run in the thread or in one
// above it: it may work there, and holds the run's lease. A call over several spaces
// has no fences.
func (c *call) worksIn(id string) bool {
	return slices.ContainsFunc(c.proven, func(f thole.Fence) bool {
		of, err := runOf(f)
		if err != nil {
			return false
		}
		space := c.space.Name()
		h, err := run.In(c.handle(space), nil).Attach(c.ctx, of, f)
		return err == nil && c.mayWork(space, h.Thread()) && c.within(space, id, func(above string) bool { return above == h.Thread() })
	})
}

// within reports whether is holds of the thread or of one above it.
func (c *call) within(space, id string, is func(id string) bool) bool {
	for range thread.MaxDepth + 1 {
		if is(id) {
			return true
		}
		t, err := thread.In(c.handle(space)).Get(c.ctx, id)
		if err != nil || t.Parent == "" {
			return false
		}
		id = t.Parent
	}
	return false
}

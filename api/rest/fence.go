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

// The tokens in Thole-Fence prove that the caller holds leases. They give no other
// right: grants and the privacy of threads decide about those. See
// docs/decisions/0018.

// errLost is the error of every fence that does not hold: the lease has ended or
// never was, or the secret is wrong.
var errLost = fmt.Errorf("%w: a lease of Thole-Fence has ended or has another holder", thole.ErrFenced)

// enterWithFences checks the request's fences and the thread in its path. A caller
// from whom the thread is hidden gets the same answer whether or not the fences hold
// and whether or not there is such a thread.
func (c *call) enterWithFences() error {
	lost, ended := c.prove()
	err := c.enterThread()
	if ended && lost == nil && err != nil {
		lost = errLost
	}
	if errors.Is(err, thole.ErrNotFound) && lost != nil && c.mayWork(c.space.Name(), c.r.PathValue("thread")) {
		return lost // it tells a worker to stop, in any thread
	}
	if err != nil {
		return err
	}
	return lost
}

// prove checks that the caller holds the leases of the request's fences. With a lease
// that has ended, a request under an idempotency key goes on, so that a repeat gets
// its first answer; if it is not a repeat, the fence stops its commits.
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

// mayWork reports whether a grant lets the caller act as a worker of runs in a
// private thread of somebody else. A grant on a thread covers the threads of its
// sub-agents.
func (c *call) mayWork(space, thread string) bool {
	scope, err := c.allowed(space, auth.Work)
	return err == nil && c.within(space, thread, scope.Thread)
}

// worksIn reports whether the caller is the worker of a run in the thread or in one
// above it: it may work there and holds the run's lease. It is false for a call over
// several spaces, which has no fences.
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

// within reports whether is returns true for the thread or one above it.
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

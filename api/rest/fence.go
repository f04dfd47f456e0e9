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
	lost := c.prove()
	err := c.enterThread()
	if errors.Is(err, thole.ErrNotFound) && lost != nil && c.mayWork(c.space.Name(), c.r.PathValue("thread")) {
		return lost // a worker is told to stop, in whatever thread
	}
	if err != nil {
		return err
	}
	return lost
}

// prove checks that the caller holds the leases of the request's fences, or that
// the request repeats one that was made while it did.
func (c *call) prove() (lost error) {
	c.proven = nil
	for _, f := range c.fences {
		err := c.space.Prove(c.ctx, f)
		if errors.Is(err, thole.ErrFenced) {
			err = c.repeats(f)
		}
		if err == nil {
			c.proven = append(c.proven, f)
		} else if lost == nil {
			lost = err
		}
	}
	return lost
}

// repeats returns nil if the request repeats an earlier one. That one carried
// the same fences, secrets included: they are part of what an idempotency key
// stands for. Otherwise it returns errLost.
func (c *call) repeats(f thole.Fence) error {
	made := []*thole.Space{c.space} // in whose name the earlier one was made
	if id, err := runOf(f); err == nil {
		h, err := run.In(c.handle(c.space.Name()), nil).Attach(c.ctx, id, f)
		switch {
		case err == nil:
			made = append(made, h.Space())
		case errors.As(err, new(*thole.ReusedKeyError)):
			return err
		}
	}
	for _, sp := range made {
		if _, repeated, err := sp.Earlier(c.ctx); err != nil || repeated {
			return err
		}
	}
	if c.op.ends {
		if rec, err := c.space.Get(c.ctx, f.Key); err != nil || !rec.Exists() {
			return err
		}
	}
	return errLost
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

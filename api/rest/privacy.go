package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// A private thread is its owner's. To everyone else but admins there is no such
// thread: not by its path, not in lists, and not in what is heard of the space.

// seesAll reports whether nothing in a space is private to the caller.
func (c *call) seesAll(space string) bool {
	_, err := c.allowed(space, auth.Admin)
	return err == nil
}

// mayKnow reports whether the caller may know of a thread.
func (c *call) mayKnow(visibility, owner string) bool {
	return visibility != thread.Private || owner == c.actor || c.seesAll(c.space.Name())
}

// enterThread checks the thread in the path, if there is one.
func (c *call) enterThread() error {
	id := c.r.PathValue("thread")
	if id == "" {
		return nil
	}
	return c.mayEnter(id)
}

// mayEnter checks a thread of the call's space against the grant and the
// thread's privacy.
func (c *call) mayEnter(id string) error {
	if !c.scope.Thread(id) {
		return fmt.Errorf("%w: the token is for other threads", ErrForbidden)
	}
	if err := thole.CheckID("thrd", id); err != nil {
		return err
	}
	if c.seesAll(c.space.Name()) {
		return nil
	}
	p := privacy{c: c, space: c.space}
	if p.isHidden(id) && !c.worksIn(id) {
		return fmt.Errorf("thread %s: %w", id, thole.ErrNotFound)
	}
	return nil
}

// worksIn reports whether the caller is the worker of a run in the thread: that
// it proves by the run's token.
func (c *call) worksIn(id string) bool {
	fences, err := parseFences(c.r.Header.Values("Thole-Fence"))
	if err != nil {
		return false
	}
	for _, f := range fences {
		name, err := runOf(f)
		if err != nil {
			continue
		}
		if h, err := run.In(c.handle(c.space.Name()), nil).Attach(c.ctx, name, f); err == nil && h.Thread() == id {
			return true
		}
	}
	return false
}

// privacy decides, for one stream of deliveries or one page, which events tell
// of a thread that the caller may not know of.
type privacy struct {
	c      *call
	space  *thole.Space
	hidden map[string]bool // threads that were looked at
}

// newPrivacy returns nil if nothing is hidden from the caller.
func (c *call) newPrivacy(space *thole.Space) *privacy {
	if c.seesAll(space.Name()) {
		return nil
	}
	return &privacy{c: c, space: space, hidden: make(map[string]bool)}
}

// hides reports whether e is not for the caller.
func (p *privacy) hides(e *thole.Event) bool {
	if p == nil {
		return false
	}
	if e.Stream == decision.Stream {
		return p.hidesDecision(e)
	}
	rest, ok := strings.CutPrefix(e.Stream, "thread/")
	if !ok {
		return false
	}
	id, _, _ := strings.Cut(rest, "/")
	if e.Type == "thread.updated" {
		delete(p.hidden, id) // perhaps its visibility
	}
	return p.hidesThread(id)
}

// hidesDecision reports whether e tells of a decision in a thread that is not
// for the caller.
func (p *privacy) hidesDecision(e *thole.Event) bool {
	var d struct{ ID, Thread string }
	if json.Unmarshal(e.Data, &d) != nil || d.ID == "" {
		return false
	}
	if e.Type != decision.TypePlanned {
		made, err := decision.In(p.space).Get(p.c.r.Context(), d.ID)
		if err != nil {
			return true
		}
		d.Thread = made.Thread
	}
	return d.Thread != "" && p.hidesThread(d.Thread)
}

// hidesThread reports whether the thread is not for the caller.
func (p *privacy) hidesThread(id string) bool {
	if p == nil {
		return false
	}
	hidden, known := p.hidden[id]
	if !known {
		hidden = p.isHidden(id)
		if len(p.hidden) > 10_000 { // bounded; what is dropped is looked at again
			clear(p.hidden)
		}
		p.hidden[id] = hidden
	}
	return hidden
}

// isHidden looks at a thread's head; of one that is gone, at the final state
// that it left. When in doubt, it is hidden.
func (p *privacy) isHidden(id string) bool {
	ctx := p.c.r.Context()
	t, err := thread.In(p.space).Get(ctx, id)
	if errors.Is(err, thole.ErrNotFound) {
		t, err = p.final(id)
	}
	if err != nil {
		return true
	}
	return t != nil && t.Visibility == thread.Private && t.Owner != p.c.actor
}

// final returns the head of a thread that was destroyed or expired; nil if
// there never was such a thread.
func (p *privacy) final(id string) (*thread.Thread, error) {
	page, err := p.space.Read(p.c.r.Context(), thole.ReadQuery{
		Stream: thread.Key(id), Types: []string{"thread.destroyed", "thread.expired"}, Backward: true, Limit: 1,
	})
	if err != nil || len(page.Events) == 0 {
		return nil, err
	}
	var end thole.Expired
	if err := page.Events[0].As(&end); err != nil {
		return nil, err
	}
	t := new(thread.Thread)
	return t, thole.Decode("final state of thread "+id, end.Value, t)
}

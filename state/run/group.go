package run

import (
	"context"
	"sync"
)

// Group holds the runs that a process works on, so that the process can stop in good
// order. [Runs.Do] and [Runs.Claim] add a run; it leaves when [Runs.Do], [Handle.Do]
// or [Handle.Finish] has ended it. The zero Group is ready to use. It is safe for
// concurrent use.
type Group struct {
	mu      sync.Mutex
	closing bool
	places  map[*place]struct{}
	idle    chan struct{} // closed when the last place is left; made by Drain
}

// place is the membership of one run in a group. A run enters the group before it
// begins, so that Drain misses no run.
type place struct {
	group  *Group                  // nil: in no group
	cancel context.CancelCauseFunc // cancels Do's work; nil: that has not begun
}

// enter adds a place to the group; nil if the group is drained.
func (g *Group) enter() *place {
	p := &place{group: g}
	if g == nil {
		return p
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return nil
	}
	if g.places == nil {
		g.places = make(map[*place]struct{})
	}
	g.places[p] = struct{}{}
	return p
}

// work returns the context of Do's work, which Drain can cancel. It returns false if p
// is nil or Drain has removed it.
func (p *place) work(ctx context.Context) (context.Context, bool) {
	if p == nil {
		return ctx, false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if p.group == nil {
		p.cancel = cancel
		return ctx, true
	}
	p.group.mu.Lock()
	defer p.group.mu.Unlock()
	if _, ok := p.group.places[p]; !ok {
		cancel(nil)
		return ctx, false
	}
	p.cancel = cancel
	return ctx, true
}

// leave removes the place from its group. It is idempotent.
func (p *place) leave() {
	if p.cancel != nil {
		p.cancel(nil)
	}
	if p.group == nil {
		return
	}
	p.group.mu.Lock()
	defer p.group.mu.Unlock()
	p.group.remove(p)
}

// leaveUnlessAtWork is leave for a run that ends without Do; if Do works on it, it
// does nothing.
func (p *place) leaveUnlessAtWork() {
	if p.group == nil {
		return
	}
	p.group.mu.Lock()
	defer p.group.mu.Unlock()
	if p.cancel == nil {
		p.group.remove(p)
	}
}

func (g *Group) remove(p *place) {
	if _, ok := g.places[p]; !ok {
		return
	}
	delete(g.places, p)
	if g.closing && len(g.places) == 0 {
		close(g.idle)
	}
}

// Drain stops new runs from entering the group and waits until all have left. If ctx
// ends first, Drain cancels the runs that Do works on, with cause shutdown, and waits
// until they have ended. Call it only once.
func (g *Group) Drain(ctx context.Context) {
	g.mu.Lock()
	g.closing, g.idle = true, make(chan struct{})
	if len(g.places) == 0 {
		close(g.idle)
	}
	g.mu.Unlock()
	select {
	case <-g.idle:
		return
	case <-ctx.Done():
	}
	g.mu.Lock()
	for p := range g.places {
		if p.cancel != nil {
			p.cancel(&CancelledError{Cause: ByShutdown})
		} else {
			g.remove(p) // a later Do cancels and ends the run
		}
	}
	g.mu.Unlock()
	<-g.idle
}

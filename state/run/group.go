package run

import (
	"context"
	"sync"
)

// Group is the runs that a process works on, so that it can stop in good order:
// those that [Runs.Do] and [Runs.Claim] begin, until [Runs.Do], [Handle.Do] or
// [Handle.Finish] has ended them. The zero Group is ready; it is safe for
// concurrent use.
type Group struct {
	mu      sync.Mutex
	closing bool
	places  map[*place]struct{}
	idle    chan struct{} // closed when the last place is left; made by Drain
}

// place is a run's in a group. It is taken before the run begins, so that a
// drain finds either the run or nothing.
type place struct {
	group  *Group                  // nil: of no group
	cancel context.CancelCauseFunc // of Do's work; nil: that has not begun
}

// enter takes a place; nil when the group takes no more.
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

// work returns the context of Do's work at the place, which also ends when the
// group's patience does. It is false when there is no place, or none any more.
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

// leave gives the place back, and may be called again.
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

// leaveUnlessAtWork is leave for who ends a run without Do.
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

// Drain lets no more runs begin in the group and waits for those that have. When
// ctx ends before them, they are cancelled with cause shutdown, and Drain waits
// until those that Do works on have ended. It is called once.
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
			g.remove(p) // its Do will find that, and end the run
		}
	}
	g.mu.Unlock()
	<-g.idle
}

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
	members map[*member]struct{}
	idle    chan struct{} // closed when the last member has left; made by Drain
}

// member is a run in a group. A run enters the group before it begins, so that Drain
// misses no run.
type member struct {
	group  *Group                  // nil: in no group
	cancel context.CancelCauseFunc // cancels Do's work; nil: that has not begun
}

// enter adds a member to the group; nil if the group is drained.
func (g *Group) enter() *member {
	m := &member{group: g}
	if g == nil {
		return m
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return nil
	}
	if g.members == nil {
		g.members = make(map[*member]struct{})
	}
	g.members[m] = struct{}{}
	return m
}

// work returns the context of Do's work, which Drain can cancel. It returns false if m
// is nil or Drain has removed it.
func (m *member) work(ctx context.Context) (context.Context, bool) {
	if m == nil {
		return ctx, false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if m.group == nil {
		m.cancel = cancel
		return ctx, true
	}
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if _, ok := m.group.members[m]; !ok {
		cancel(nil)
		return ctx, false
	}
	m.cancel = cancel
	return ctx, true
}

// leave removes the member from its group. It is idempotent.
func (m *member) leave() {
	if m.cancel != nil {
		m.cancel(nil)
	}
	if m.group == nil {
		return
	}
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	m.group.remove(m)
}

// leaveUnlessAtWork is leave for a run that ends without Do; if Do works on it, it
// does nothing.
func (m *member) leaveUnlessAtWork() {
	if m.group == nil {
		return
	}
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if m.cancel == nil {
		m.group.remove(m)
	}
}

func (g *Group) remove(m *member) {
	if _, ok := g.members[m]; !ok {
		return
	}
	delete(g.members, m)
	if g.closing && len(g.members) == 0 {
		close(g.idle)
	}
}

// Drain stops new runs from entering the group and waits until all have left. If ctx
// ends first, Drain cancels the runs that Do works on, those that wait for a signal too,
// with cause shutdown, and waits until they have ended. Call it only once.
func (g *Group) Drain(ctx context.Context) {
	g.mu.Lock()
	g.closing, g.idle = true, make(chan struct{})
	if len(g.members) == 0 {
		close(g.idle)
	}
	g.mu.Unlock()
	select {
	case <-g.idle:
		return
	case <-ctx.Done():
	}
	g.mu.Lock()
	for m := range g.members {
		if m.cancel != nil {
			m.cancel(&CancelledError{Cause: ByShutdown})
		} else {
			g.remove(m) // a later Do cancels and ends the run
		}
	}
	g.mu.Unlock()
	<-g.idle
}

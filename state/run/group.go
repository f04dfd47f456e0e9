package run

import (
	"context"
	"sync"
)

// Group is the runs that a process works on, so that it can stop in good order.
// The zero Group is ready; it is safe for concurrent use.
type Group struct {
	mu      sync.Mutex
	closing bool
	cancels map[int]context.CancelCauseFunc // of those at work
	next    int
	idle    chan struct{} // closed when the last one leaves; made by Drain
}

func (g *Group) draining() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closing
}

// join adds a worker: its context ends when the group's patience does. ok is
// false when the group takes no more.
func (g *Group) join(ctx context.Context) (_ context.Context, leave func(), ok bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	if g == nil {
		return ctx, func() { cancel(nil) }, true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		cancel(nil)
		return ctx, nil, false
	}
	if g.cancels == nil {
		g.cancels = make(map[int]context.CancelCauseFunc)
	}
	id := g.next
	g.next++
	g.cancels[id] = cancel
	return ctx, func() {
		cancel(nil)
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.cancels, id)
		if g.closing && len(g.cancels) == 0 {
			close(g.idle)
		}
	}, true
}

// Drain lets no more runs begin in the group and waits for those at work. When
// ctx ends before them, they are cancelled with cause shutdown, and Drain waits
// until they have ended. It is called once.
func (g *Group) Drain(ctx context.Context) {
	g.mu.Lock()
	g.closing, g.idle = true, make(chan struct{})
	if len(g.cancels) == 0 {
		close(g.idle)
	}
	g.mu.Unlock()
	select {
	case <-g.idle:
		return
	case <-ctx.Done():
	}
	g.mu.Lock()
	for _, cancel := range g.cancels {
		cancel(&CancelledError{Cause: ByShutdown})
	}
	g.mu.Unlock()
	<-g.idle
}

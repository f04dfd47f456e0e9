package lock

import (
	"context"
	"sync"

	"github.com/thole-dev/thole"
)

// state is what the copies of a Lock share.
type state struct {
	mu    sync.Mutex
	ended bool
	stops []func()
}

func (s *state) end() {
	s.mu.Lock()
	stops := s.stops
	s.ended, s.stops = true, nil
	s.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}

// add reports false if the lock has been released already.
func (s *state) add(stop func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.stops = append(s.stops, stop)
	}
	return !s.ended
}

// Keep renews the lock in the background until stop is called, the lock is
// released, or ctx ends. The context it returns ends then, with the cause
// ErrFenced if the lock was lost. The caller must call stop, which waits for
// the background work to end and may be called again.
func (l *Lock) Keep(ctx context.Context) (kept context.Context, stop func()) {
	kept, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	stop = func() { cancel(context.Canceled); <-ended }
	if !l.state.add(stop) {
		close(ended)
		cancel(context.Canceled)
		return kept, stop
	}
	go func() {
		defer close(ended)
		// When a renewal fails for good, whoever works under the lock must hear.
		cancel(l.locks.sp.KeepLease(thole.WithoutIdempotencyKey(kept), l.Fence, l.TTL))
	}()
	return kept, stop
}

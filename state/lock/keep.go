package lock

import (
	"context"
	"sync"

	"github.com/thole-dev/thole"
)

// state is shared by the copies of a Lock.
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

// add registers stop for end. It returns false if the lock was released before.
func (s *state) add(stop func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.stops = append(s.stops, stop)
	}
	return !s.ended
}

// Keep renews the lock in the background until stop is called, the lock is released or
// lost, or ctx ends. Then the returned context ends, too, with the cause ErrFenced if the
// lock was lost. The caller must call stop, which waits for the background work to end;
// stop is idempotent.
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
		// A renewal that fails for good must stop the work under the lock.
		cancel(l.locks.sp.KeepLease(thole.WithoutIdempotencyKey(kept), l.Fence, l.TTL))
	}()
	return kept, stop
}

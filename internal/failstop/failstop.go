// Package failstop holds why a store stopped: the first write, sync or change of a
// name that its disk failed. From then on the store does nothing any more, since
// nobody knows what is on the disk: after a failed sync Linux takes the pages that it
// could not write for written, and the next sync succeeds without them.
package failstop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
)

// Stop is what the parts of one store share. It is safe for concurrent use.
type Stop struct {
	what string // the store, for people
	kind error  // what the error unwraps to, beside its cause

	mu   sync.Mutex
	err  error
	done chan struct{} // closed when err is set
}

// New returns the Stop of a store that runs. The error of a store that stopped begins
// with kind and what, and unwraps to kind and its cause.
func New(kind error, what string) *Stop {
	return &Stop{what: what, kind: kind, done: make(chan struct{})}
}

// Because stops the store because of cause, unless it has stopped before. It returns
// the error of the store.
func (s *Stop) Because(cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = fmt.Errorf("%w: %s stopped, because its disk failed: nothing that was acknowledged is lost; check the disk, then start the process again: %w", s.kind, s.what, cause)
		close(s.done)
	}
	return s.err
}

// Err returns why the store stopped; nil while it runs.
func (s *Stop) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Done is closed when the store stops.
func (s *Stop) Done() <-chan struct{} { return s.done }

// Wait returns why the store stopped when it does, or nil when ctx ends or closed is
// closed before.
func (s *Stop) Wait(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-s.done:
		return s.Err()
	case <-closed:
	case <-ctx.Done():
	}
	return nil
}

// Full reports whether err says that there was no space. A write that fails so is no
// failure of the disk; a sync that does is one, as any sync that fails.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, quota)
}

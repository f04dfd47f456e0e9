// Package failstop records why a store stopped: its disk failed a write, a sync, or the
// change of a file's name. From then on the store does nothing, because the content of
// the disk is unknown: after a failed sync, Linux marks the pages that it could not
// write as clean, and the next sync succeeds without them.
package failstop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
)

// Stop is shared by the parts of one store. It is safe for concurrent use.
type Stop struct {
	what string // the store, for people
	kind error  // the error that Err wraps, beside the cause

	mu   sync.Mutex
	err  error
	done chan struct{} // closed when err is set
}

// New returns the Stop of a running store. Once it has stopped, its error begins with
// kind and what, and wraps kind and the cause.
func New(kind error, what string) *Stop {
	return &Stop{what: what, kind: kind, done: make(chan struct{})}
}

// Because stops the store because of cause, unless it has stopped already, and returns
// the store's error.
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

// Wait waits until the store stops and returns why. It returns nil if ctx ends or
// closed is closed first.
func (s *Stop) Wait(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-s.done:
		return s.Err()
	case <-closed:
	case <-ctx.Done():
	}
	return nil
}

// Full reports whether err means that the disk or the quota is full. If a write fails
// with such an error, the disk has not failed; if a sync does, it has, as after any
// failed sync.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, quota)
}

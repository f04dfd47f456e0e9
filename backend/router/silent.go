package router

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/thole-dev/thole/journal"
)

// A call to several backends waits for each at most for patience. A backend that does
// not answer in that time is skipped for a pause, then called again.
const (
	patience = 5 * time.Second
	pause    = 10 * time.Second
)

// silence holds until when backends are skipped.
type silence struct {
	mu    sync.Mutex
	until map[int]time.Time // by the number of the backend
}

// ask calls do for one of several backends. It returns ErrUnavailable if the backend is
// being skipped or do takes longer than patience.
func (b *Backend) ask(ctx context.Context, part int, do func(ctx context.Context) error) error {
	if len(b.parts) == 1 {
		return do(ctx)
	}
	s := &b.silence
	s.mu.Lock()
	until, silent := s.until[part]
	s.mu.Unlock()
	if silent && time.Now().Before(until) {
		return fmt.Errorf("%w: it was silent a moment ago", journal.ErrUnavailable)
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := do(within)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		s.until[part] = time.Now().Add(pause)
		return fmt.Errorf("%w: no answer within %v: %w", journal.ErrUnavailable, patience, err)
	}
	delete(s.until, part)
	return err
}

// answered combines the errors of the backends that were called into the error of the
// call. An ErrInvalid, ErrTooLarge or ErrClosed, or any error after ctx ended, is
// returned as it is. If all backends failed, answered joins their errors; if only some
// did, it returns a *journal.UnreachableError that names them.
func (b *Backend) answered(ctx context.Context, errs []error, asked int) error {
	var out journal.UnreachableError
	for part, err := range errs {
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil, errors.Is(err, journal.ErrInvalid), errors.Is(err, journal.ErrTooLarge), errors.Is(err, journal.ErrClosed):
			return err
		}
		out.Stores = append(out.Stores, journal.UnreachableStore{Spaces: b.patterns(part), Err: err})
	}
	switch len(out.Stores) {
	case 0:
		return nil
	case asked:
		return errors.Join(errs...)
	}
	return &out
}

// patterns returns the patterns of a backend's rules.
func (b *Backend) patterns(part int) []string {
	var all []string
	for _, r := range b.rules {
		if r.Backend == b.parts[part] {
			all = append(all, r.Pattern)
		}
	}
	return all
}

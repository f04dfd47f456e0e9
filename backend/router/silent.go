package router

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/thole-dev/thole/journal"
)

// A question to several backends waits for none longer than patience. One that
// was silent for so long is left out for a pause, then it is asked again.
const (
	patience = 5 * time.Second
	pause    = 10 * time.Second
)

// silence is until when backends are left out.
type silence struct {
	mu    sync.Mutex
	until map[int]time.Time // by the number of the backend
}

// ask asks one of several backends something that others are asked, too.
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

// answered makes of the errors of the backends that were asked the one of the
// question. If some gave an answer, those that did not are named; an error that
// says that the question was wrong, or the end, is everyone's.
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

// patterns returns those of the rules that lead to a backend.
func (b *Backend) patterns(part int) []string {
	var all []string
	for _, r := range b.rules {
		if r.Backend == b.parts[part] {
			all = append(all, r.Pattern)
		}
	}
	return all
}

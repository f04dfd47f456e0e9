package sqlitestore

import (
	"context"

	"github.com/thole-dev/thole/journal"
)

// hints calls wake("") after another process, or
// another Store, committed to the file. It returns nil when ctx ends or the
// Store is closed.
//
// It asks the connection that writes, because only that one can tell the
// commits of others from ours. While a batch is being written it need not ask:
// the batch began with the same question.
func (s *Store) hints(ctx context.Context, wake func(space string)) error {
	return journal.HintsByCount(ctx, s.closed, s.opts.Poll, s.pollForeign, wake)
}

// pollForeign returns how often other connections were seen to have written.
func (s *Store) pollForeign() uint64 {
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
		s.writer.refresh() // an error will show up where it matters
	case <-s.closed:
	default:
	}
	return s.writer.foreign.Load()
}

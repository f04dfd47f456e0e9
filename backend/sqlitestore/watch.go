package sqlitestore

import (
	"context"

	"github.com/thole-dev/thole/journal"
)

// hints calls wake("") after another process or another Store committed to the file.
// It returns nil when ctx ends or the Store is closed.
//
// It polls the connection that writes, because only that one can distinguish commits
// of others from its own. It skips the poll while a batch is being written, since each
// batch begins with the same query.
func (s *Store) hints(ctx context.Context, wake func(space string)) error {
	return journal.HintsByCount(ctx, s.closed, s.opts.Poll, s.pollForeign, wake)
}

// pollForeign returns how many times the writer has noticed writes of other
// connections.
func (s *Store) pollForeign() uint64 {
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
		s.writer.refresh() // the next operation returns an error
	case <-s.closed:
	default:
	}
	return s.writer.foreign.Load()
}

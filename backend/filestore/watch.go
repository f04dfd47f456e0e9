package filestore

import (
	"context"

	"github.com/thole-dev/thole/journal"
)

// hints calls wake("") after another process, or
// another Store, did something. It returns nil when ctx ends or the Store is
// closed.
func (s *Store) hints(ctx context.Context, wake func(space string)) error {
	return journal.HintsByCount(ctx, s.closed, s.opts.Poll, s.foreign, wake)
}

// foreign counts what other processes were seen to do.
func (s *Store) foreign() uint64 {
	if err := s.refresh(); err != nil {
		return 0 // it will show up where it matters
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.news
}

package filestore

import (
	"context"

	"github.com/thole-dev/thole/journal"
)

// hints calls wake("") after another process or another Store changed something. It
// returns nil when ctx ends or the Store is closed.
func (s *Store) hints(ctx context.Context, wake func(space string)) error {
	return journal.HintsByCount(ctx, s.closed, s.opts.Poll, s.foreign, wake)
}

// foreign returns how many notes of other processes this Store has read.
func (s *Store) foreign() uint64 {
	if err := s.refresh(); err != nil {
		return 0 // the next operation returns the error
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.news
}

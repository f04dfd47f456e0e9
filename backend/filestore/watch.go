package filestore

import (
	"context"
	"time"
)

// Watch implements [thole.Watcher]: it calls wake("") after another process, or
// another Store, did something. It returns nil when ctx ends or the Store is
// closed.
func (s *Store) Watch(ctx context.Context, wake func(space string)) error {
	tick := time.NewTicker(s.opts.Poll)
	defer tick.Stop()
	seen := s.foreign()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		case <-s.closed:
			return nil
		}
		if now := s.foreign(); now != seen {
			seen = now
			wake("")
		}
	}
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

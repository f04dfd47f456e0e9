package filestore

import "context"

// Patrol looks at all that a Store looks at in turn.
func (s *Store) Patrol(ctx context.Context) error {
	if _, _, err := s.patrol(ctx, "", ""); err != nil {
		return err
	}
	for after := ""; ; {
		var err error
		if after, err = s.patrolNotes(ctx, after); after == "" || err != nil {
			return err
		}
	}
}

// Stopped returns why the store stopped; nil while it runs.
func (s *Store) Stopped() error { return s.stop.Err() }

// Unsure returns how many spaces have a note that lacks something.
func (s *Store) Unsure() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.incomplete)
}

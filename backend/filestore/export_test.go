package filestore

import "context"

// Patrol does everything that a Store checks in turn, once it knows the spaces that there
// are, as it does each time that it sweeps.
func (s *Store) Patrol(ctx context.Context) error {
	if err := s.refresh(); err != nil {
		return err
	}
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

// Unsure returns the number of spaces whose notes are incomplete.
func (s *Store) Unsure() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.incomplete)
}

package filestore

import (
	"context"
	"path/filepath"
)

// What expires must be found also in a space that nobody uses, and what Spaces knows of
// such a space is its note. A note may lack the last commits: notes are not synced, so
// a power loss takes some, and a process may die before it could write one again. So
// each note is compared with the journal, when the store is opened and then in turn. A
// space whose note lacks something is due until it is read.

// doubtNotes compares all notes with the journals. The caller holds the lock.
func (s *Store) doubtNotes() error {
	for after := ""; ; {
		notes := s.unreadNotes(after, patrolFiles)
		if len(notes) == 0 {
			return nil
		}
		if err := parallel(notes, s.doubt); err != nil {
			return err
		}
		after = notes[len(notes)-1].Space
	}
}

// patrolNotes compares some notes with the journals. It returns the space after which
// to go on the next time.
func (s *Store) patrolNotes(ctx context.Context, after string) (next string, err error) {
	notes := s.unreadNotes(after, patrolFiles)
	for _, n := range notes {
		complete, err := s.complete(n)
		if err == nil && !complete { // somebody may be writing just now
			err = s.doubtNow(ctx, n.Space)
		}
		if err != nil {
			return n.Space, err // the next round looks again
		}
	}
	if len(notes) < patrolFiles {
		return "", nil
	}
	return notes[len(notes)-1].Space, nil
}

// unreadNotes returns up to limit notes of spaces that are not in memory, after one.
func (s *Store) unreadNotes(after string, limit int) (notes []note) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.notes.Ascend(after, func(name string, n note) bool {
		if name != after && s.spaces[name] == nil && !s.unsure[name] {
			notes = append(notes, n)
		}
		return len(notes) < limit
	})
	return notes
}

// doubtNow is doubt for what the newest note of a space says.
func (s *Store) doubtNow(ctx context.Context, name string) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s.mu.RLock()
	n, _ := s.notes.Get(name)
	s.mu.RUnlock()
	return s.doubt(n)
}

// doubt makes a space due whose note lacks something. The caller holds the lock, so
// nobody is writing what is to be noted next.
func (s *Store) doubt(n note) error {
	complete, err := s.complete(n)
	if err != nil || complete {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsure[n.Space] = true
	return nil
}

// complete reports whether a note says all that is in the journal. Whether it is so of
// one that says little is found out elsewhere: those of spaces that are gone, only
// announced, or not read yet.
func (s *Store) complete(n note) (bool, error) {
	switch {
	case n.Gone || n.Began || n.Last.IsZero():
		return true, nil
	case n.Rewriting: // the sizes are those of the old journal
		return false, nil
	}
	return s.endsWith(filepath.Join(s.dir, spaceDir(n.Space)), segment{n.Segment, n.Size}, n.Last.Seq+1)
}

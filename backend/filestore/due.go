package filestore

import (
	"context"
	"path/filepath"
)

// Spaces must report a space with expired records even if nobody uses it, and knows
// such a space only from its note. A note may lack the last commits: notes are not
// synced, so a power loss may lose some, and a process may die before it writes one.
// Therefore the store compares each note with its journal, when it is opened and then
// in turn. A space with an incomplete note counts as due until it is read.

// checkNotes compares all notes of unread spaces with the journals. The caller holds
// the lock.
func (s *Store) checkNotes() error {
	for after := ""; ; {
		notes := s.unreadNotes(after, patrolFiles)
		if len(notes) == 0 {
			return nil
		}
		if err := parallel(notes, s.checkNote); err != nil {
			return err
		}
		after = notes[len(notes)-1].Space
	}
}

// patrolNotes compares some notes with the journals. It returns the space after which
// the next call continues.
func (s *Store) patrolNotes(ctx context.Context, after string) (next string, err error) {
	notes := s.unreadNotes(after, patrolFiles)
	for _, n := range notes {
		complete, err := s.complete(n)
		if err == nil && !complete { // perhaps only because another process is writing
			err = s.recheckNote(ctx, n.Space)
		}
		if err != nil {
			return n.Space, err
		}
	}
	if len(notes) < patrolFiles {
		return "", nil
	}
	return notes[len(notes)-1].Space, nil
}

// unreadNotes returns up to limit notes of spaces after the given one that are neither
// in memory nor known to have an incomplete note.
func (s *Store) unreadNotes(after string, limit int) (notes []note) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.notes.Ascend(after, func(name string, n note) bool {
		if name != after && s.spaces[name] == nil && !s.incomplete[name] {
			notes = append(notes, n)
		}
		return len(notes) < limit
	})
	return notes
}

// recheckNote takes the lock and calls checkNote with the newest note of a space.
func (s *Store) recheckNote(ctx context.Context, name string) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s.mu.RLock()
	n, _ := s.notes.Get(name)
	s.mu.RUnlock()
	return s.checkNote(n)
}

// checkNote marks a space as due if its note is incomplete. The caller holds the lock, so
// no process is between a commit and its note.
func (s *Store) checkNote(n note) error {
	complete, err := s.complete(n)
	if err != nil || complete {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.incomplete[n.Space] = true
	return nil
}

// complete reports whether a note covers the whole journal. It also reports true for
// notes that other code handles: of spaces that were removed, only announced, or never
// read.
func (s *Store) complete(n note) (bool, error) {
	switch {
	case n.Gone || n.Began || n.Last.IsZero():
		return true, nil
	case n.Rewriting: // the sizes are those of the old journal
		return false, nil
	}
	return s.endsWith(filepath.Join(s.dir, spaceDir(n.Space)), segment{n.Segment, n.Size}, n.Last.Seq+1)
}

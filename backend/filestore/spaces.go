package filestore

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"github.com/thole-dev/thole/journal"
)

// findSpaces lists the directories of spaces. It notes new spaces and removed ones.
// The caller holds the lock.
func (s *Store) findSpaces() error {
	found := map[string]bool{}
	kinds, err := s.disk.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		if !kind.IsDir() || kind.Name()[0] == '.' {
			continue
		}
		if kind.Name() == "global" {
			found["global"], err = s.disk.exists(filepath.Join(s.dir, "global", "journal"))
			if err != nil {
				return err
			}
			continue
		}
		name, ok := unescape(kind.Name())
		ids, err := s.disk.ReadDir(filepath.Join(s.dir, kind.Name()))
		if err != nil {
			return err
		}
		for _, id := range ids {
			if !ok || !id.IsDir() {
				continue
			}
			space, err := s.spaceAt(kind.Name(), name, id.Name())
			if err != nil {
				return err
			}
			if space != "" {
				found[space] = true
			}
		}
	}
	return s.noteFound(found)
}

// spaceAt returns the name of the space in a directory, "" if there is none.
func (s *Store) spaceAt(dir, kind, id string) (string, error) {
	path := filepath.Join(s.dir, dir, id)
	segments, err := s.segments(path)
	if err != nil || len(segments) == 0 {
		return "", err
	}
	if part, ok := unescape(id); ok {
		return kind + ":" + part, nil
	}
	head, err := s.readHead(path, segments[0])
	if errors.Is(err, journal.ErrCorrupt) {
		s.reportf("%v: ignored, as nothing else says which space it is", err)
		return "", nil
	}
	if err != nil || spaceDir(head.Space) != filepath.Join(dir, id) {
		return "", err
	}
	return head.Space, nil
}

// noteFound makes the notes agree with the spaces that were found.
func (s *Store) noteFound(found map[string]bool) error {
	var changed []note
	var gone []*space
	s.mu.RLock()
	s.notes.Scan(func(name string, n note) bool {
		if !n.Gone && !n.Began && !found[name] {
			changed = append(changed, note{Space: name, Era: n.Era + 1, Gone: true})
			if sp := s.spaces[name]; sp != nil {
				gone = append(gone, sp)
			}
		}
		if !n.Gone {
			delete(found, name)
		}
		return true
	})
	for name, there := range found {
		if there {
			n, _ := s.notes.Get(name)
			changed = append(changed, note{Space: name, Era: n.Era + 1})
		}
	}
	s.mu.RUnlock()
	if len(changed) == 0 {
		return nil
	}
	for _, n := range changed {
		if n.Gone {
			s.reportf("space %s is gone: its files were removed by hand, or by a purge that did not complete", n.Space)
		}
	}
	return s.tellOthers(func() []note {
		for _, sp := range gone {
			s.forget(sp)
		}
		return changed
	})
}

// announce durably notes that spaces are being created, before any of their files
// exist. A space that was not announced was put there by somebody else.
func (s *Store) announce(spaces []*space) error {
	if len(spaces) == 0 {
		return nil
	}
	err := s.tellOthers(func() []note {
		var notes []note
		for _, sp := range spaces {
			notes = append(notes, note{Space: sp.name, Era: sp.era, Began: true})
		}
		return notes
	})
	if err == nil {
		err = s.syncManifest()
	}
	return err
}

// loadBegun reads the spaces that some process announced but did not note after
// that, because it crashed or ended. The caller holds the lock, so nobody is creating
// them now.
func (s *Store) loadBegun() error {
	for _, name := range s.begunSpaces() {
		if _, err := s.load(name); err != nil && !errors.Is(err, journal.ErrCorrupt) {
			return err // a damaged space returns its error when it is used
		}
	}
	return nil
}

// begunSpaces returns the spaces that are only announced.
func (s *Store) begunSpaces() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.begun))
}

// finishBegun calls loadBegun under the lock if any space is only announced.
func (s *Store) finishBegun(ctx context.Context) error {
	s.mu.RLock()
	none := len(s.begun) == 0
	s.mu.RUnlock()
	if none {
		return nil
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return s.explain(s.loadBegun())
}

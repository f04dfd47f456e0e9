package filestore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/thole-dev/thole/journal"
)

// Check reads every file of the store and compares it with the store's memory: every
// checksum, the density of every journal, every record. It returns ErrCorrupt with the
// findings of the first 10 bad spaces. Commits wait while it checks a space.
func (s *Store) Check(ctx context.Context) error {
	names, err := s.names(ctx)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	var found []error
	for _, name := range names {
		err := s.checkSpace(ctx, name)
		if err != nil && !errors.Is(err, journal.ErrCorrupt) {
			return fmt.Errorf("check: %w", err)
		}
		if err != nil && len(found) < 10 {
			found = append(found, fmt.Errorf("%s: %w", name, err))
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("check: file store %s: %w", s.dir, errors.Join(found...))
	}
	return nil
}

func (s *Store) names(ctx context.Context) ([]string, error) {
	var names []string
	for after := ""; ; {
		page, err := s.Spaces(ctx, journal.SpacesQuery{After: after})
		if err != nil {
			return nil, err
		}
		names = append(names, page...)
		if len(page) < journal.MaxPage {
			return names, nil
		}
		after = page[len(page)-1]
	}
}

// checkSpace reads a space from its files and compares it with the one in memory.
func (s *Store) checkSpace(ctx context.Context, name string) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	sp, err := s.existing(name)
	if err != nil || sp == nil {
		return err
	}
	s.mu.RLock()
	n, _ := s.notes.Get(name)
	s.mu.RUnlock()
	r := &recovery{Store: s, sp: newSpace(name, sp.dir), note: n, wrote: map[string]wrote{}, looking: true}
	if err := r.readJournal(); err != nil {
		return s.explain(err)
	}
	if err := r.readRecords(); err != nil {
		return s.explain(err)
	}
	return r.differs(sp)
}

// differs returns ErrCorrupt with the first difference between the space that was read
// and the one in memory, nil if there is none.
func (r *recovery) differs(sp *space) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{journal.ErrCorrupt}, args...)...)
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	switch {
	case r.replaced:
		return bad("its journal was changed by hand")
	case r.sp.head.Last != sp.head.Last || !slices.Equal(r.sp.head.Epochs, sp.head.Epochs):
		return bad("its journal ends at %s, not at %s", r.sp.head.Last, sp.head.Last)
	case len(r.sp.events) != len(sp.events) || len(r.sp.streams) != len(sp.streams):
		return bad("its journal has %d events in %d streams, not %d in %d", len(r.sp.events), len(r.sp.streams), len(sp.events), len(sp.streams))
	case len(r.hand) > 0:
		return bad("record %s was changed by hand; the next use of it adopts that", r.hand[0].Key)
	}
	for _, w := range r.replay {
		if _, behind := sp.dirty[w.key]; !behind {
			return bad("the file of record %s is behind its version %s", w.key, w.version)
		}
	}
	var err error
	sp.records.Scan(func(key string, have *record) bool {
		got, ok := r.sp.records.Get(key)
		if _, behind := sp.dirty[key]; !behind && (!ok || got.Version != have.Version) {
			err = bad("record %s has no file of version %s", key, have.Version)
		}
		return err == nil
	})
	return err
}

// The patrol examines files that people may have changed in turn, patrolFiles at a
// time.
const (
	patrolEvery = time.Second
	patrolFiles = 500
)

// patrol examines the journals and some records of the spaces in memory. It reads
// changed ones again and adopts the changes. It returns the space and key at which the
// next patrol continues.
func (s *Store) patrol(ctx context.Context, space, key string) (nextSpace, nextKey string, err error) {
	s.mu.RLock()
	names := slices.Sorted(maps.Keys(s.spaces))
	s.mu.RUnlock()
	for _, name := range names {
		if changed, err := s.changedJournal(name); err != nil {
			return space, key, err
		} else if changed {
			if err := s.readAgain(ctx, name, nil); err != nil {
				return space, key, err
			}
		}
	}
	left := patrolFiles
	i, _ := slices.BinarySearch(names, space)
	for ; i < len(names) && left > 0; i++ {
		if names[i] != space {
			key = ""
		}
		keys := s.cleanKeys(names[i], key, left)
		left -= len(keys)
		changed, err := s.changedRecords(names[i], keys)
		if err == nil && len(changed) > 0 {
			err = s.readAgain(ctx, names[i], changed)
		}
		if err != nil {
			return space, key, err
		}
		if left == 0 {
			return names[i], keys[len(keys)-1], nil
		}
	}
	return "", "", nil
}

// cleanKeys returns up to n keys after the given one, only of records whose files are
// up to date and were examined before.
func (s *Store) cleanKeys(name, after string, n int) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var keys []string
	if sp := s.spaces[name]; sp != nil {
		sp.records.Ascend(after, func(key string, r *record) bool {
			if _, behind := sp.dirty[key]; key > after && !behind && r.file != unknown {
				keys = append(keys, key)
			}
			return len(keys) < n
		})
	}
	return keys
}

// changedJournal reports whether a journal on disk differs from the one in memory,
// possibly only because another process is writing to it.
func (s *Store) changedJournal(name string) (bool, error) {
	s.mu.RLock()
	sp := s.spaces[name]
	s.mu.RUnlock()
	if sp == nil {
		return false, nil
	}
	same, err := s.untouched(sp)
	return !same && err == nil, err
}

// changedRecords returns the keys of those records whose files differ from what the
// store wrote.
func (s *Store) changedRecords(name string, keys []string) ([]string, error) {
	var changed []string
	for _, key := range keys {
		s.mu.RLock()
		sp := s.spaces[name]
		var r *record
		behind := false
		if sp != nil {
			r, _ = sp.records.Get(key)
			_, behind = sp.dirty[key]
		}
		s.mu.RUnlock()
		if r == nil || behind || r.file == unknown {
			continue
		}
		file, err := s.disk.stampAt(filepath.Join(sp.dir, "records", recordFile(key)))
		if err != nil {
			return nil, err
		}
		if file != r.file {
			changed = append(changed, key)
		}
	}
	return changed, nil
}

// readAgain takes the lock and reads a space again if its journal or one of the
// records still differs.
func (s *Store) readAgain(ctx context.Context, name string, keys []string) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	sp, err := s.existing(name)
	if err != nil || sp == nil {
		return err
	}
	changed, err := s.changedRecords(name, keys)
	if err == nil && len(changed) > 0 {
		_, err = s.load(name)
	}
	return s.explain(err)
}

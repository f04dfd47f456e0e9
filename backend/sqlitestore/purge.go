package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/thole-dev/thole/journal"
)

// Purge implements [journal.Backend]. Before follows [journal.Head.Trim] and leaves
// free pages for reuse. The other purges erase: they overwrite what they remove,
// rebuild the file without it and empty the log, so that no file of the store holds it
// any more. Erasing takes time and space in proportion to the whole store, and commits
// wait for it.
//
// If erasing fails after the rows were deleted, the error says so and erasing is
// pending (see owed.go); the next Purge, of any space, finishes it. Repeating a purge
// of a whole space then succeeds although the space no longer exists.
func (s *Store) Purge(ctx context.Context, name string, p journal.Purge) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("purge %s: %w", name, err)
	}
	defer unlock()
	w := s.writer
	if err := w.Exec(`PRAGMA secure_delete = ON`); err != nil {
		return fmt.Errorf("purge %s: %w", name, s.explain(ctx, err))
	}
	defer w.Exec(`PRAGMA secure_delete = OFF`)
	var owed, begun bool // some erasing is pending; one of this space is
	missing := false
	err = w.transact(ctx, func() (err error) {
		if owed, begun, err = w.owed(name); err != nil {
			return err
		}
		if err = w.purge(name, p); errors.Is(err, journal.ErrNotFound) {
			missing = true
			return nil
		}
		if trims := !p.All && !p.Before.IsZero(); err != nil || trims {
			return err
		}
		owed = true
		return w.owe(name)
	})
	if err != nil {
		return fmt.Errorf("purge %s: %w", name, s.explain(ctx, err))
	}
	w.forget()
	if !owed {
		w.boundLog()
	} else if err := s.scrub(ctx); err != nil {
		return fmt.Errorf("purge %s: what was removed has left traces in the file; purge again to erase them: %w", name, s.explain(ctx, err))
	}
	if missing && !(begun && p.All) {
		return fmt.Errorf("purge %s: %w", name, journal.ErrNotFound)
	}
	return nil
}

// scrub rebuilds the file and empties the log. Overwriting the deleted rows is not
// enough, since other pages may hold old copies of them.
func (s *Store) scrub(ctx context.Context) error {
	w := s.writer
	w.SetInterrupt(ctx)
	err := w.Exec(`VACUUM`)
	w.SetInterrupt(context.Background())
	if err != nil {
		w.rolledBack()
		return err
	}
	resume, err := s.readers.pause(ctx)
	if err != nil {
		return err
	}
	defer resume()
	if err = w.truncateLog(ctx); err == nil {
		err = w.transact(ctx, w.settle)
	}
	if err == nil {
		err = w.truncateLog(ctx) // erases the names in the pending rows
	}
	w.measureLog()
	return err
}

func (w *writer) purge(name string, p journal.Purge) error {
	sp, err := w.space(name)
	if err != nil {
		return err
	}
	if sp.id == 0 {
		return journal.ErrNotFound
	}
	switch {
	case p.All:
		return w.drop(sp.id)
	case !p.Before.IsZero():
		return w.trim(sp, p.Before)
	case len(p.Streams) > 0:
		return w.removeStreams(sp, p.Streams, p.Through(sp.head))
	}
	for _, at := range p.Events {
		if position(&sp.head, at.Seq) != at {
			continue
		}
		s := w.prepare(`UPDATE event SET actor = NULL, cause = NULL, subject = NULL, refs = NULL, data = NULL WHERE id = ?`)
		if err := s.int(eventID(sp.id, at.Seq)).exec(); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) trim(sp *space, before journal.Position) error {
	if err := sp.head.Trim(before); err != nil {
		return err
	}
	if err := w.touch(sp); err != nil {
		return err
	}
	if err := w.dropEvents(sp.id, sp.head.Oldest.Seq); err != nil {
		return err
	}
	return w.prepare(`DELETE FROM stream WHERE space = ? AND NOT EXISTS (SELECT 1 FROM event WHERE stream = stream.id)`).int(sp.id).exec()
}

func (w *writer) removeStreams(sp *space, names []string, through uint64) error {
	for _, name := range names {
		st, err := w.stream(sp, name)
		if err != nil {
			return err
		}
		if err := w.prepare(`DELETE FROM event WHERE stream = ? AND id <= ?`).int(st.id).int(eventID(sp.id, through)).exec(); err != nil {
			return err
		}
		if st.last > through {
			continue
		}
		if err := w.prepare(`DELETE FROM stream WHERE id = ?`).int(st.id).exec(); err != nil {
			return err
		}
	}
	return nil
}

// Check examines the file for damage: every page, every index, every reference.
// It returns ErrCorrupt with the first findings. It reads the whole file; commits and
// reads do not wait for it.
func (s *Store) Check(ctx context.Context) error {
	err := s.view(ctx, func(c *conn) error {
		st := c.prepare(`PRAGMA integrity_check(10)`)
		var found []string
		for st.next() {
			if line := st.ColumnText(0); line != "ok" {
				found = append(found, line)
			}
		}
		if err := st.done(); err != nil {
			return err
		}
		st = c.prepare(`PRAGMA foreign_key_check`)
		for st.next() && len(found) < 10 {
			found = append(found, fmt.Sprintf("row %d of %s refers to no row of %s", st.ColumnInt64(1), st.ColumnText(0), st.ColumnText(2)))
		}
		if err := st.done(); err != nil {
			return err
		}
		misplaced, err := c.integer(`SELECT count(*) FROM event JOIN stream ON stream.id = event.stream WHERE event.id >> 40 <> stream.space`)
		if err != nil {
			return err
		}
		if misplaced > 0 {
			found = append(found, fmt.Sprintf("%d events are of another space than their stream", misplaced))
		}
		if len(found) > 0 {
			return fmt.Errorf("%w: sqlite store %s: %q", journal.ErrCorrupt, s.path, found)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nil
}

package sqlitestore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/thole-dev/thole/journal"
)

// Load implements [journal.Backend]. Until the chunk with Done, the import is a
// staged space, which survives a restart but is hidden from reads. An existing space
// is ErrExists.
func (s *Store) Load(ctx context.Context, name string, c journal.Chunk) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	defer unlock()
	w := s.writer
	err = w.transact(ctx, func() error { return w.load(name, &c) })
	if err != nil {
		return fmt.Errorf("load %s: %w", name, s.explain(ctx, err))
	}
	w.forget() // the caches may say that the space does not exist
	s.writer.boundLog()
	return nil
}

func (w *writer) load(name string, c *journal.Chunk) error {
	if c.Head.Last.Seq > maxSeq {
		return fmt.Errorf("%w: a sqlite store has room for %d positions in a space; keep this one in another store", journal.ErrFull, maxSeq)
	}
	if sp, err := w.space(name); err != nil {
		return err
	} else if sp.id != 0 {
		return journal.ErrExists
	}
	sp, err := w.stage(name, c.Head)
	if err != nil {
		return err
	}
	for i := range c.Events {
		e := &c.Events[i]
		// A chunk may be sent again.
		s := w.prepare(`DELETE FROM event WHERE id = ?`).int(eventID(sp.id, e.Position.Seq))
		if err := s.exec(); err != nil {
			return err
		}
		e.Time = micro(e.Time)
		if err := w.insert(sp, e); err != nil {
			return err
		}
	}
	for i := range c.Records {
		r := c.Records[i]
		r.Updated, r.Expires = micro(r.Updated), micro(r.Expires)
		if err := w.put(sp, &r); err != nil {
			return err
		}
	}
	if !c.Done {
		return nil
	}
	return w.prepare(`UPDATE space SET staged = 0 WHERE id = ?`).int(sp.id).exec()
}

// stage returns the staged space. It starts a new import if the head differs.
func (w *writer) stage(name string, head journal.Head) (*space, error) {
	s, id, staged, err := w.head(name, true)
	if e := s.done(); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	head.Space = name
	sp := &space{id: id, head: head}
	if id != 0 {
		if staged.Oldest == head.Oldest && staged.Last == head.Last && slices.Equal(staged.Epochs, head.Epochs) {
			return sp, nil
		}
		if err := w.drop(id); err != nil {
			return nil, err
		}
	}
	epochs, err := json.Marshal(head.Epochs)
	if err != nil {
		return nil, err
	}
	s = w.prepare(`INSERT INTO space (name, staged, oldest, last, epochs) VALUES (?, 1, ?, ?, ?)`).text(name)
	s.text(head.Oldest.String()).text(head.Last.String()).json(epochs)
	return sp, w.created(sp, s.exec())
}

// dropEvents removes a space's events before seq.
func (w *writer) dropEvents(id int64, seq uint64) error {
	return w.prepare(`DELETE FROM event WHERE id >= ? AND id < ?`).int(eventID(id, 0)).int(eventID(id, seq)).exec()
}

// drop removes a space with its content.
func (w *writer) drop(id int64) error {
	if err := w.dropEvents(id, endSeq); err != nil {
		return err
	}
	for _, sql := range []string{
		`DELETE FROM stream WHERE space = ?`,
		`DELETE FROM record WHERE space = ?`,
		`DELETE FROM space WHERE id = ?`,
	} {
		if err := w.prepare(sql).int(id).exec(); err != nil {
			return err
		}
	}
	return nil
}

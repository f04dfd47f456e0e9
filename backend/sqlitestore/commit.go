package sqlitestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/thole-dev/thole/journal"
)

// Commit implements [journal.Backend]. The batch is one transaction. The checks of a
// commit are evaluated before any of its writes, so a conflict needs no undo. If a
// space is damaged or full, its commits get that error in their results and the
// transaction is repeated without them. If Commit returns an error, the store has
// nothing of the batch, unless the sync itself failed.
func (s *Store) Commit(ctx context.Context, batch []journal.Commit) ([]journal.Result, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	defer unlock()
	results := make([]journal.Result, len(batch))
	for {
		sick := ""
		err = s.writer.transact(ctx, func() error {
			for i := range batch {
				if results[i].Err != nil {
					continue
				}
				var err error
				if results[i], err = s.writer.apply(&batch[i]); err != nil {
					sick = batch[i].Space
					return err
				}
			}
			return nil
		})
		if err == nil {
			s.writer.boundLog()
			return results, nil
		}
		err = fmt.Errorf("commit: %w", s.explain(ctx, err))
		if sick == "" || !ofSpace(err) {
			return nil, err
		}
		// The transaction was rolled back. Repeat it without the commits to that space.
		for i := range batch {
			if batch[i].Space == sick {
				results[i] = journal.Result{Err: err}
			} else if results[i].Err == nil {
				results[i] = journal.Result{}
			}
		}
	}
}

// ofSpace reports whether an error concerns only the space at which it occurred: its
// data is damaged, or it has no room for more.
func ofSpace(err error) bool {
	if errors.Is(err, journal.ErrCorrupt) {
		return true
	}
	return errors.Is(err, journal.ErrFull) && !full(err)
}

// apply checks and writes one commit within the transaction.
func (w *writer) apply(c *journal.Commit) (journal.Result, error) {
	sp, err := w.space(c.Space)
	if err != nil {
		return journal.Result{}, err
	}
	local := *c
	local.Now = micro(c.Now)
	conflict, err := local.Conflict(
		func(name string) (journal.Position, error) {
			st, err := w.stream(sp, name)
			return position(&sp.head, st.last), err
		},
		func(key string) (journal.Record, error) {
			v, err := w.record(sp, key)
			return journal.Record{Key: key, Version: position(&sp.head, v.seq), Expires: v.expires, Notify: v.notify}, err
		},
	)
	if err != nil || conflict != nil {
		return journal.Result{Conflict: conflict}, err
	}
	result, err := sp.head.Advance(&local, maxSeq)
	if err != nil {
		return journal.Result{Err: fmt.Errorf("commit: sqlite store %s: %w", w.file.path, err)}, nil // nothing was written yet
	}
	if err := w.touch(sp); err != nil {
		return result, err
	}
	for i := range c.Events {
		e := local.Event(i, result)
		if err := w.insert(sp, &e); err != nil {
			return result, err
		}
	}
	for i := range c.Writes {
		r := local.Record(i, result)
		r.Expires = micro(r.Expires)
		if err := w.put(sp, &r); err != nil {
			return result, err
		}
	}
	return result, nil
}

// insert inserts an event, and its stream if that is new.
func (w *writer) insert(sp *space, e *journal.Event) error {
	st, err := w.stream(sp, e.Stream)
	if err != nil {
		return err
	}
	if st.id == 0 {
		if err := w.prepare(`INSERT INTO stream (space, name) VALUES (?, ?)`).int(sp.id).text(e.Stream).exec(); err != nil {
			return err
		}
		st.id = w.LastInsertRowID()
	}
	refs, err := encodeRefs(e.Refs)
	if err != nil {
		return err
	}
	s := w.prepare(`INSERT INTO event (id, stream, type, time, schema, actor, subject, cause, refs, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	s.int(eventID(sp.id, e.Position.Seq)).int(st.id).text(e.Type).int(e.Time.UnixMicro()).int(int64(e.Schema))
	s.optional(e.Actor).optional(e.Subject).optional(e.Cause).json(refs).json(e.Data)
	if err := s.exec(); err != nil {
		return err
	}
	st.last = max(st.last, e.Position.Seq)
	w.streams[inSpace{sp.id, e.Stream}] = st
	return nil
}

// put sets a record, or deletes it if it has no value. Conflict has usually cached its
// row, which saves a search for the key.
func (w *writer) put(sp *space, r *journal.Record) error {
	v, err := w.record(sp, r.Key)
	if err != nil {
		return err
	}
	at := inSpace{sp.id, r.Key}
	if r.Value == nil {
		if v.seq == 0 {
			return nil
		}
		w.records[at] = version{}
		return w.prepare(`DELETE FROM record WHERE id = ?`).int(v.id).exec()
	}
	var s *stmt
	if v.seq == 0 {
		s = w.prepare(`INSERT INTO record (version, updated, expires, notify, schema, value, space, key) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`)
	} else {
		s = w.prepare(`UPDATE record SET version = ?, updated = ?, expires = ?, notify = ?, schema = ?, value = ? WHERE id = ?`)
	}
	s.int(int64(r.Version.Seq)).int(r.Updated.UnixMicro()).time(r.Expires).int(flag(r.Notify)).int(int64(r.Schema)).json(r.Value)
	if v.seq == 0 {
		err = s.int(sp.id).text(r.Key).exec()
		v.id = w.LastInsertRowID()
	} else {
		err = s.int(v.id).exec()
	}
	w.records[at] = version{id: v.id, seq: r.Version.Seq, expires: r.Expires, notify: r.Notify}
	return err
}

// position returns the Position of a seq, zero for seq 0. Epochs of a space do not
// overlap; a seq beyond the last epoch counts to it.
func position(h *journal.Head, seq uint64) journal.Position {
	if seq == 0 {
		return journal.Position{}
	}
	for i := len(h.Epochs) - 1; i >= 0; i-- {
		if h.Epochs[i].First <= seq {
			return journal.Position{Epoch: h.Epochs[i].Name, Seq: seq}
		}
	}
	return journal.Position{}
}

// micro returns t as it is stored: in UTC, cut to microseconds.
func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

func encodeRefs(refs []string) ([]byte, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	return json.Marshal(refs)
}

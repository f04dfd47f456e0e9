package sqlitestore

import (
	"context"
	"fmt"

	"github.com/thole-dev/thole/journal"
)

// view calls f with a connection for reading.
func (s *Store) view(ctx context.Context, f func(*conn) error) error {
	c, err := s.readers.take(ctx, s.closed)
	if err != nil {
		return s.explain(ctx, err)
	}
	defer s.readers.give(c)
	if err := s.stop.Err(); err != nil {
		return err
	}
	return s.explain(ctx, f(c))
}

// head returns the id and the head of a space, id 0 if it does not exist. Until the
// caller calls done on the statement, the connection sees one state of the file: the
// open query keeps the read transaction open, so no BEGIN is needed.
func (c *conn) head(name string, staged bool) (s *stmt, id int64, h journal.Head, err error) {
	s = c.prepare(`SELECT id, oldest, last, epochs FROM space WHERE name = ? AND staged = ?`).text(name)
	h.Space = name
	if !s.int(flag(staged)).next() {
		return s, 0, h, s.err
	}
	if h.Oldest, err = journal.ParsePosition(s.ColumnText(1)); err != nil {
		return s, 0, h, fmt.Errorf("%w: oldest position of %s: %v", journal.ErrCorrupt, name, err)
	}
	if h.Last, err = journal.ParsePosition(s.ColumnText(2)); err != nil {
		return s, 0, h, fmt.Errorf("%w: last position of %s: %v", journal.ErrCorrupt, name, err)
	}
	err = journal.Decode("epochs of "+name, s.ColumnRawText(3), &h.Epochs)
	return s, s.ColumnInt64(0), h, err
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// inspace calls f with the head of a space, in one read transaction. It does not call
// f if the space does not exist.
func (s *Store) inspace(ctx context.Context, name string, f func(c *conn, id int64, h *journal.Head) error) error {
	return s.view(ctx, func(c *conn) error {
		st, id, head, err := c.head(name, false)
		if err == nil && id != 0 {
			err = f(c, id, &head)
		}
		if e := st.done(); err == nil {
			err = e
		}
		return err
	})
}

// Get implements [journal.Backend].
func (s *Store) Get(ctx context.Context, space string, keys ...string) ([]journal.Record, error) {
	records := make([]journal.Record, len(keys))
	err := s.inspace(ctx, space, func(c *conn, id int64, h *journal.Head) error {
		for i, key := range keys {
			st := c.prepare(`SELECT key, version, updated, expires, notify, schema, value FROM record WHERE space = ? AND key = ?`)
			if st.int(id).text(key).next() {
				records[i] = st.toRecord(h)
			}
			if err := st.done(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("get from %s: %w", space, err)
	}
	return records, nil
}

// toRecord reads the columns key, version, updated, expires, notify, schema, value.
func (s *stmt) toRecord(h *journal.Head) journal.Record {
	return journal.Record{
		Key:     s.ColumnText(0),
		Version: position(h, uint64(s.ColumnInt64(1))),
		Updated: s.colTime(2),
		Expires: s.colTime(3),
		Notify:  s.ColumnInt64(4) != 0,
		Schema:  int(s.ColumnInt64(5)),
		Value:   s.colJSON(6),
	}
}

// List implements [journal.Backend].
func (s *Store) List(ctx context.Context, space string, q journal.ListQuery) ([]journal.Record, error) {
	var records []journal.Record
	err := s.inspace(ctx, space, func(c *conn, id int64, h *journal.Head) error {
		const columns = `SELECT key, version, updated, expires, notify, schema, value FROM record `
		var st *stmt
		if q.DueBy.IsZero() {
			st = c.prepare(columns + `WHERE space = ? AND key >= ? AND key < ? ORDER BY key LIMIT ?`).int(id)
		} else {
			// By expiry, since few records are due at a time.
			st = c.prepare(columns + `INDEXED BY record_expires WHERE expires <= ? AND space = ? AND key >= ? AND key < ? ORDER BY key LIMIT ?`)
			st.int(q.DueBy.UnixMicro()).int(id)
		}
		first := q.Prefix
		if q.After != "" {
			first = max(first, q.After+"\x00") // the next possible key
		}
		st.text(first).end(q.Prefix).int(int64(journal.PageLimit(q.Limit)))
		for st.next() {
			records = append(records, st.toRecord(h))
		}
		return st.done()
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", space, err)
	}
	return records, nil
}

// end binds the least value above all texts that begin with prefix, which is
// empty or ends with a slash.
func (s *stmt) end(prefix string) *stmt {
	if prefix == "" {
		return s.blob() // SQLite sorts every blob after every text
	}
	last := len(prefix) - 1
	return s.text(prefix[:last] + string([]byte{prefix[last] + 1}))
}

// Heads implements [journal.Backend].
func (s *Store) Heads(ctx context.Context, spaces ...string) ([]journal.Head, error) {
	heads := make([]journal.Head, len(spaces))
	err := s.view(ctx, func(c *conn) error {
		for i, name := range spaces {
			st, _, head, err := c.head(name, false)
			if e := st.done(); err == nil {
				err = e
			}
			if err != nil {
				return err
			}
			heads[i] = head
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("heads: %w", err)
	}
	return heads, nil
}

// Spaces implements [journal.Backend].
func (s *Store) Spaces(ctx context.Context, q journal.SpacesQuery) ([]string, error) {
	var names []string
	err := s.view(ctx, func(c *conn) error {
		var st *stmt
		if q.DueBy.IsZero() {
			st = c.prepare(`SELECT name FROM space WHERE name > ? AND staged = 0 ORDER BY name LIMIT ?`).text(q.After)
		} else {
			st = c.prepare(`SELECT name FROM space WHERE name > ? AND staged = 0
				AND id IN (SELECT space FROM record WHERE expires <= ?) ORDER BY name LIMIT ?`)
			st.text(q.After).int(q.DueBy.UnixMicro())
		}
		st.int(int64(journal.PageLimit(q.Limit)))
		for st.next() {
			names = append(names, st.ColumnText(0))
		}
		return st.done()
	})
	if err != nil {
		return nil, fmt.Errorf("spaces: %w", err)
	}
	return names, nil
}

// maxScan is the most events that are read for one page, so that a filter that rarely
// matches does not occupy a connection for long.
const maxScan = 8 * journal.MaxPage

// Read implements [journal.Backend].
func (s *Store) Read(ctx context.Context, space string, q journal.ReadQuery) (journal.Page, error) {
	var page journal.Page
	exists := false
	err := s.inspace(ctx, space, func(c *conn, id int64, h *journal.Head) (err error) {
		exists = true
		if err := h.Resume(q.After); err != nil {
			return err
		}
		scan := newScan(id, h, q)
		if filters(q) {
			page, err = scan.filtered(c)
		} else {
			page, err = scan.plain(c)
		}
		return err
	})
	if err == nil && !exists {
		err = journal.Head{Space: space}.Resume(q.After)
	}
	if err != nil {
		return journal.Page{}, fmt.Errorf("read %s: %w", space, err)
	}
	return page, nil
}

// filters reports whether q selects by more than its stream and range.
func filters(q journal.ReadQuery) bool {
	return len(q.Types) > 0 || q.Actor != "" || q.Subject != "" || !q.Since.IsZero() || !q.Until.IsZero()
}

// scan is a walk over the events of a space or a stream.
type scan struct {
	space int64
	head  *journal.Head
	q     journal.ReadQuery
	after int64 // events with an id greater than it
	until int64 // and less than it
}

func newScan(space int64, h *journal.Head, q journal.ReadQuery) *scan {
	sc := &scan{space: space, head: h, q: q, after: eventID(space, q.After.Seq), until: eventID(space, endSeq)}
	if q.Before.IsZero() {
		return sc
	}
	// Positions compare by epoch first: all of an older epoch is before.
	var until uint64
	for _, e := range h.Epochs {
		switch {
		case e.Name < q.Before.Epoch:
			until = e.Last + 1
		case e.Name == q.Before.Epoch:
			until = min(q.Before.Seq, e.Last+1)
		}
	}
	sc.until = eventID(space, until)
	return sc
}

package pgstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/thole-dev/thole/journal"
)

// A read is one statement, so that it sees one state of the store. Each row also has
// the head of the space, which is needed to derive positions from seqs.
const headColumns = `s.oldest, s.last, s.epochs`

// row holds the head columns of a row of a read.
type row struct {
	oldest string
	last   int64
	epochs []byte
}

// head returns the head of a space from the first row; the other rows repeat it.
func (r *row) head(name string) (h journal.Head, err error) {
	h.Space = name
	if h.Oldest, err = journal.ParsePosition(r.oldest); err != nil {
		return h, fmt.Errorf("%w: oldest position of %s: %v", journal.ErrCorrupt, name, err)
	}
	if err := journal.Decode("epochs of "+name, r.epochs, &h.Epochs); err != nil {
		return h, err
	}
	if len(h.Epochs) == 0 {
		return h, fmt.Errorf("%w: %s has no epoch", journal.ErrCorrupt, name)
	}
	if current := &h.Epochs[len(h.Epochs)-1]; uint64(r.last) >= current.First {
		current.Last = uint64(r.last)
	}
	h.Last = position(&h, uint64(r.last))
	return h, nil
}

// position returns the Position of a seq, zero for seq 0. Epochs of a space do not
// overlap; a seq beyond the last epoch counts to it.
func position(h *journal.Head, seq uint64) journal.Position {
	if seq == 0 {
		return journal.Position{}
	}
	for _, e := range slices.Backward(h.Epochs) {
		if e.First <= seq {
			return journal.Position{Epoch: e.Name, Seq: seq}
		}
	}
	return journal.Position{}
}

// query runs a statement and calls each for every row.
func (s *Store) query(ctx context.Context, each func(rows pgx.Rows) error, sql string, args ...any) error {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	rows, err := s.pool.Query(ctx, s.sql(sql), args...)
	if err != nil {
		return s.explain(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return s.explain(ctx, err)
		}
	}
	return s.explain(ctx, rows.Err())
}

const recordColumns = `r.key, r.version, r.updated, r.expires, r.notify, r.schema, r.value`

// found is a row of a read of records.
type found struct {
	row
	key             *string
	version         *int64
	updated, expiry *time.Time
	notify          *bool
	schema          *int64
	value           []byte
}

func (f *found) scan(rows pgx.Rows, first ...any) error {
	f.value = nil
	return rows.Scan(append(first, &f.oldest, &f.last, &f.epochs,
		&f.key, &f.version, &f.updated, &f.expiry, &f.notify, &f.schema, &f.value)...)
}

func (f *found) record(h *journal.Head) journal.Record {
	r := journal.Record{
		Key: *f.key, Value: f.value, Schema: int(*f.schema), Version: position(h, uint64(*f.version)),
		Updated: f.updated.UTC(), Notify: *f.notify,
	}
	if f.expiry != nil {
		r.Expires = f.expiry.UTC()
	}
	return r
}

// Get implements [journal.Backend].
func (s *Store) Get(ctx context.Context, space string, keys ...string) ([]journal.Record, error) {
	records := make([]journal.Record, len(keys))
	var f found
	var head journal.Head
	err := s.query(ctx, func(rows pgx.Rows) (err error) {
		var at int64
		if err := f.scan(rows, &at); err != nil {
			return err
		}
		if len(head.Epochs) == 0 {
			if head, err = f.head(space); err != nil {
				return err
			}
		}
		records[at-1] = f.record(&head)
		return nil
	}, `SELECT k.n, `+headColumns+`, `+recordColumns+` FROM thole.space AS s
		CROSS JOIN unnest($2::text[]) WITH ORDINALITY AS k (key, n)
		JOIN thole.record AS r ON r.space = s.id AND r.key = k.key
		WHERE s.name = $1 AND NOT s.staged`, space, keys)
	if err != nil {
		return nil, fmt.Errorf("get from %s: %w", space, err)
	}
	return records, nil
}

// List implements [journal.Backend].
func (s *Store) List(ctx context.Context, space string, q journal.ListQuery) ([]journal.Record, error) {
	args := []any{space, q.After, q.Prefix}
	where := `r.space = s.id AND r.key > $2 AND r.key >= $3`
	if q.Prefix != "" {
		args = append(args, q.Prefix[:len(q.Prefix)-1]+"0") // "0" comes after "/"
		where += fmt.Sprintf(` AND r.key < $%d`, len(args))
	}
	page := fmt.Sprintf(` ORDER BY r.key LIMIT %d`, journal.PageLimit(q.Limit))
	if q.DueBy.IsZero() {
		where += page // the server can stop at the limit
	} else { // few are due: find them first, then sort
		args = append(args, q.DueBy)
		where += fmt.Sprintf(` AND r.expires <= $%d`, len(args))
	}
	var records []journal.Record
	var f found
	var head journal.Head
	err := s.query(ctx, func(rows pgx.Rows) (err error) {
		if err := f.scan(rows); err != nil {
			return err
		}
		if len(head.Epochs) == 0 {
			if head, err = f.head(space); err != nil {
				return err
			}
		}
		records = append(records, f.record(&head))
		return nil
	}, `SELECT `+headColumns+`, `+recordColumns+` FROM thole.space AS s
		CROSS JOIN LATERAL (SELECT * FROM thole.record AS r WHERE `+where+`) AS r
		WHERE s.name = $1 AND NOT s.staged`+page, args...)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", space, err)
	}
	return records, nil
}

// Heads implements [journal.Backend].
func (s *Store) Heads(ctx context.Context, spaces ...string) ([]journal.Head, error) {
	byName := make(map[string]journal.Head, len(spaces))
	var name string
	var r row
	err := s.query(ctx, func(rows pgx.Rows) error {
		err := rows.Scan(&name, &r.oldest, &r.last, &r.epochs)
		if err == nil {
			byName[name], err = r.head(name)
		}
		return err
	}, `SELECT s.name, `+headColumns+` FROM thole.space AS s WHERE s.name = ANY ($1) AND NOT s.staged`, spaces)
	if err != nil {
		return nil, fmt.Errorf("heads: %w", err)
	}
	heads := make([]journal.Head, len(spaces))
	for i, name := range spaces {
		heads[i] = byName[name]
		heads[i].Space = name
		heads[i].Epochs = slices.Clone(heads[i].Epochs) // spaces may repeat a name
	}
	return heads, nil
}

// Spaces implements [journal.Backend].
func (s *Store) Spaces(ctx context.Context, q journal.SpacesQuery) ([]string, error) {
	sql := `SELECT name FROM thole.space WHERE name > $1 AND NOT staged`
	args := []any{q.After, journal.PageLimit(q.Limit)}
	if !q.DueBy.IsZero() {
		sql += ` AND id IN (SELECT space FROM thole.record WHERE expires <= $3)`
		args = append(args, q.DueBy)
	}
	var names []string
	err := s.query(ctx, func(rows pgx.Rows) error {
		var name string
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	}, sql+` ORDER BY name LIMIT $2`, args...)
	if err != nil {
		return nil, fmt.Errorf("spaces: %w", err)
	}
	return names, nil
}

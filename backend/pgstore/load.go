package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/thole-dev/thole/journal"
)

// transact calls f in a transaction for administrative tasks. Only ctx limits how long
// it may take, but if this process hangs, the server ends the transaction after the
// configured timeout, which releases its locks.
func (s *Store) transact(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	_, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', $1, true),
			CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END`,
			fmt.Sprint(s.timeout.Milliseconds()))
		if err != nil {
			return err
		}
		return f(ctx, tx)
	})
	return s.explain(ctx, err)
}

// Load implements [journal.Backend]. Until the chunk with Done, the import is a
// staged space, which survives a restart but is hidden from reads. An existing space
// is ErrExists.
func (s *Store) Load(ctx context.Context, space string, c journal.Chunk) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("load %s: %w", space, err)
	}
	err := s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.lock(ctx, tx, space, false)
		if err == nil {
			return journal.ErrExists
		}
		if !errors.Is(err, journal.ErrNotFound) {
			return err
		}
		return s.load(ctx, tx, space, &c)
	})
	if code(err) == uniqueViolation { // it was created meanwhile
		err = fmt.Errorf("%w: %w", journal.ErrExists, err)
	}
	if err != nil {
		return fmt.Errorf("load %s: %w", space, err)
	}
	return nil
}

func (s *Store) load(ctx context.Context, tx pgx.Tx, space string, c *journal.Chunk) error {
	id, err := s.stage(ctx, tx, space, c.Head)
	if err != nil {
		return err
	}
	if err := s.loadEvents(ctx, tx, id, c.Events); err != nil {
		return err
	}
	if err := s.loadRecords(ctx, tx, id, c.Records); err != nil {
		return err
	}
	if c.Done {
		_, err = tx.Exec(ctx, s.sql(`UPDATE thole.space SET staged = false WHERE id = $1`), id)
	}
	return err
}

// locked is a space whose head the transaction has locked.
type locked struct {
	id   int64
	head journal.Head
}

// lock locks the head of a space. A missing space is ErrNotFound.
func (s *Store) lock(ctx context.Context, tx pgx.Tx, space string, staged bool) (l locked, err error) {
	var r row
	err = tx.QueryRow(ctx, s.sql(`SELECT s.id, `+headColumns+` FROM thole.space AS s WHERE s.name = $1 AND s.staged = $2 FOR UPDATE`), space, staged).
		Scan(&l.id, &r.oldest, &r.last, &r.epochs)
	if errors.Is(err, pgx.ErrNoRows) {
		return l, journal.ErrNotFound
	}
	if err == nil {
		l.head, err = r.head(space)
	}
	return l, err
}

// stage returns the id of the staged space. It starts a new import if the head differs.
func (s *Store) stage(ctx context.Context, tx pgx.Tx, space string, head journal.Head) (id int64, err error) {
	staged, err := s.lock(ctx, tx, space, true)
	switch {
	case err == nil:
		if staged.head.Oldest == head.Oldest && staged.head.Last == head.Last && slices.Equal(staged.head.Epochs, head.Epochs) {
			return staged.id, nil
		}
		if err := s.drop(ctx, tx, staged.id); err != nil {
			return 0, err
		}
	case !errors.Is(err, journal.ErrNotFound):
		return 0, err
	}
	epochs, err := json.Marshal(head.Epochs)
	if err != nil {
		return 0, err
	}
	current := head.Epochs[len(head.Epochs)-1]
	err = tx.QueryRow(ctx, s.sql(`INSERT INTO thole.space (name, staged, oldest, last, epoch, first, epochs)
		VALUES ($1, true, $2, $3, $4, $5, $6) RETURNING id`),
		space, head.Oldest.String(), int64(head.Last.Seq), current.Name, int64(current.First), json.RawMessage(epochs)).Scan(&id)
	return id, err
}

// loadEvents inserts events. It first deletes those that an earlier attempt to send
// the chunk inserted.
func (s *Store) loadEvents(ctx context.Context, tx pgx.Tx, id int64, events []journal.Event) error {
	var f eventColumns
	var seqs []int64
	var times []time.Time
	for i := range events {
		e := &events[i]
		if err := f.add(0, 0, e, e.Actor, e.Cause); err != nil {
			return err
		}
		seqs, times = append(seqs, int64(e.Position.Seq)), append(times, e.Time)
	}
	if _, err := tx.Exec(ctx, s.sql(`DELETE FROM thole.event WHERE space = $1 AND seq = ANY ($2)`), id, seqs); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, s.sql(`INSERT INTO thole.event (space, seq, stream, type, time, schema, actor, subject, cause, refs, data)
		SELECT $1, e.seq, e.stream, e.type, e.time, e.schema, nullif(e.actor, ''), nullif(e.subject, ''), nullif(e.cause, ''), e.refs, e.data
		FROM unnest($2::bigint[], $3::text[], $4::text[], $5::timestamptz[], $6::bigint[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[])
			AS e (seq, stream, type, time, schema, actor, subject, cause, refs, data)`),
		id, seqs, f.stream, f.typ, times, f.schema, f.actor, f.subject, f.cause, documents(f.refs), documents(f.data))
	return err
}

func (s *Store) loadRecords(ctx context.Context, tx pgx.Tx, id int64, records []journal.Record) error {
	var w writeColumns
	var versions []int64
	var times []time.Time
	for i := range records {
		r := &records[i]
		w.add(0, &journal.Write{Key: r.Key, Value: r.Value, Schema: r.Schema, Expires: r.Expires, Notify: r.Notify})
		versions, times = append(versions, int64(r.Version.Seq)), append(times, r.Updated)
	}
	_, err := tx.Exec(ctx, s.sql(`INSERT INTO thole.record (space, key, version, updated, expires, notify, schema, value)
		SELECT $1, r.* FROM unnest($2::text[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::boolean[], $7::bigint[], $8::text[]) AS r
		ON CONFLICT (space, key) DO UPDATE SET version = excluded.version, updated = excluded.updated,
			expires = excluded.expires, notify = excluded.notify, schema = excluded.schema, value = excluded.value`),
		id, w.key, versions, times, w.expires, w.notify, w.schema, documents(w.value))
	return err
}

// drop removes a space with its content.
func (s *Store) drop(ctx context.Context, tx pgx.Tx, id int64) error {
	for _, sql := range []string{
		`DELETE FROM thole.event WHERE space = $1`,
		`DELETE FROM thole.record WHERE space = $1`,
		`DELETE FROM thole.space WHERE id = $1`,
	} {
		if _, err := tx.Exec(ctx, s.sql(sql), id); err != nil {
			return err
		}
	}
	return nil
}

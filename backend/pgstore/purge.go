package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/thole-dev/thole/journal"
)

// Purge implements [journal.Backend]. Commits to the space wait until it is done. The
// removed data stays in the server's files until the server vacuums and overwrites it,
// and in its write-ahead log and backups. VACUUM FULL rewrites the tables without it.
func (s *Store) Purge(ctx context.Context, space string, p journal.Purge) error {
	err := s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		l, err := s.lock(ctx, tx, space, false)
		if err != nil {
			return err
		}
		switch {
		case p.All:
			return s.drop(ctx, tx, l.id)
		case !p.Before.IsZero():
			return s.trim(ctx, tx, &l, p.Before)
		case len(p.Streams) > 0:
			_, err := tx.Exec(ctx, s.sql(`DELETE FROM thole.event WHERE space = $1 AND stream = ANY ($2) AND seq <= $3`),
				l.id, p.Streams, int64(p.Through(l.head)))
			return err
		}
		return s.redact(ctx, tx, &l, p.Events)
	})
	if err != nil {
		return fmt.Errorf("purge %s: %w", space, err)
	}
	return nil
}

func (s *Store) trim(ctx context.Context, tx pgx.Tx, l *locked, before journal.Position) error {
	if err := l.head.Trim(before); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, s.sql(`UPDATE thole.space SET oldest = $2 WHERE id = $1`), l.id, l.head.Oldest.String()); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, s.sql(`DELETE FROM thole.event WHERE space = $1 AND seq < $2`), l.id, int64(l.head.Oldest.Seq))
	return err
}

func (s *Store) redact(ctx context.Context, tx pgx.Tx, l *locked, events []journal.Position) error {
	var seqs []int64
	for _, at := range events {
		if position(&l.head, at.Seq) == at {
			seqs = append(seqs, int64(at.Seq))
		}
	}
	_, err := tx.Exec(ctx, s.sql(`UPDATE thole.event SET actor = NULL, cause = NULL, subject = NULL, refs = NULL, data = NULL
		WHERE space = $1 AND seq = ANY ($2)`), l.id, seqs)
	return err
}

// Check looks for violations of the format: events and records beyond their head or
// without a space, malformed positions, epochs that do not end with the current one.
// It returns ErrCorrupt with the first 10 findings. It reads all heads and the
// indexes; commits and reads do not wait for it. To find damaged pages, use
// PostgreSQL's amcheck.
func (s *Store) Check(ctx context.Context) error {
	var found []string
	err := s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, s.sql(checkSQL))
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%w: %s: %q", journal.ErrCorrupt, s.name(), found)
	}
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nil
}

const checkSQL = `
SELECT * FROM (
	SELECT format('event %s of space %s is beyond its head', e.seq, s.name) FROM thole.space AS s JOIN thole.event AS e ON e.space = s.id AND e.seq > s.last
	UNION ALL
	SELECT format('the oldest position of space %s cannot be read', name) FROM thole.space WHERE oldest !~ '^[0-9]{4}[0-9a-f]{8}-[0-9]{16}$'
	UNION ALL
	SELECT format('event %s of space %s is older than what is kept', e.seq, s.name) FROM thole.space AS s JOIN thole.event AS e ON e.space = s.id
		AND lpad(e.seq::text, 16, '0') COLLATE "C" < right(s.oldest, 16)
	UNION ALL
	SELECT format('record %s of space %s has a version beyond its head', r.key, s.name) FROM thole.space AS s JOIN thole.record AS r ON r.space = s.id AND r.version > s.last
	UNION ALL
	SELECT format('event %s is of space %s, which does not exist', e.seq, e.space) FROM thole.event AS e WHERE NOT EXISTS (SELECT FROM thole.space AS s WHERE s.id = e.space)
	UNION ALL
	SELECT format('record %s is of space %s, which does not exist', r.key, r.space) FROM thole.record AS r WHERE NOT EXISTS (SELECT FROM thole.space AS s WHERE s.id = r.space)
	UNION ALL
	SELECT format('the epochs of space %s do not end with the current one', name) FROM thole.space
		WHERE epochs -> -1 ->> 'epoch' IS DISTINCT FROM epoch OR (epochs -> -1 ->> 'first')::bigint IS DISTINCT FROM first
) AS found LIMIT 10`

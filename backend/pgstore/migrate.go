package pgstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/thole-dev/thole/journal"
)

// A migration takes a store to the next version: the n-th one (from 1) makes
// format.version n. Released migrations never change.
//
// Programs of several versions may use a store while it is migrated. Therefore a
// migration usually only adds: tables, columns with a default, functions under a new
// name. Programs that do not know it continue to work. A migration that must remove
// something sets breaks: older programs can no longer open the store, and running ones
// fail from then on, because it also drops the function by which they commit
// (docs/decisions/0010).
type migration struct {
	what   string // for people
	sql    string
	breaks bool // programs that do not know it can no longer use the store
}

//go:embed migrations/0001.sql
var schema1 string

// migrations is the history of the schema.
var migrations = []migration{
	{what: "create spaces, events, records, the function that commits, and views", sql: schema1},
}

// migrationPatience is how long a migration waits for a lock before it gives up, since
// requests for the lock that come after it wait as long.
const migrationPatience = 10 * time.Second

// Migrate brings the store that dsn names up to the version of this program, as
// Open does, and returns one line for each step it ran. With dryRun it changes nothing
// and returns the steps it would run. Errors are those of [Open].
func Migrate(ctx context.Context, dsn string, dryRun bool) ([]string, error) {
	c, err := parse(dsn)
	if err != nil {
		return nil, err
	}
	s := &Store{config: c}
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := s.survey(ctx, conn); err != nil {
		return nil, c.explain(ctx, err)
	}
	steps, err := c.migrate(ctx, conn, migrations, dryRun)
	return steps, c.explain(ctx, err)
}

// version returns the version of the store, 0 if there is none. It returns
// errors.ErrUnsupported if a program with known migrations is too old for the store,
// and ErrInvalid if the schema belongs to another program.
func (c *config) version(ctx context.Context, q querier, known int) (int, error) {
	var exists bool
	var others int
	err := q.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL,
		(SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $2)`,
		c.sql(`thole.format`), c.schema).Scan(&exists, &others)
	switch {
	case err != nil:
		return 0, err
	case !exists && others > 0:
		return 0, fmt.Errorf("%w: schema %s of %s belongs to another program; name another with schema= in the DSN", journal.ErrInvalid, c.schema, c.name())
	case !exists:
		return 0, nil
	}
	var version, reader int
	if err := q.QueryRow(ctx, c.sql(`SELECT version, reader FROM thole.format`)).Scan(&version, &reader); err != nil {
		return 0, err
	}
	if reader > known {
		return 0, fmt.Errorf("%w: %s has version %d, which programs from version %d on can use; this one knows versions up to %d, use a newer one",
			errors.ErrUnsupported, c.name(), version, reader, known)
	}
	return version, nil
}

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// migrate runs the missing steps of known in one transaction. If several programs
// migrate at once, one does it and the others wait.
func (c *config) migrate(ctx context.Context, conn *pgx.Conn, known []migration, dryRun bool) (steps []string, err error) {
	version, err := c.version(ctx, conn, len(known))
	if err != nil || version >= len(known) {
		return nil, err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) // no effect after a commit
	_, err = tx.Exec(ctx, `SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', '0', true),
		pg_advisory_xact_lock(hashtextextended('thole migrates ' || $2::text, 0))`,
		fmt.Sprint(migrationPatience.Milliseconds()), c.schema)
	if err != nil {
		return nil, err
	}
	if version, err = c.version(ctx, tx, len(known)); err != nil || version >= len(known) {
		return nil, err
	}
	if err := c.makeSchema(ctx, tx); err != nil {
		return nil, err
	}
	reader := 0
	for n, m := range known[version:] {
		steps = append(steps, fmt.Sprintf("version %d: %s", version+n+1, m.what))
		if _, err := tx.Exec(ctx, c.sql(m.sql)); err != nil {
			return nil, err
		}
		if m.breaks {
			reader = version + n + 1
		}
	}
	sql := `UPDATE thole.format SET version = $1, reader = greatest(reader, $2)`
	if version == 0 {
		sql = `INSERT INTO thole.format (version, reader) VALUES ($1, greatest(1, $2))`
	}
	if _, err := tx.Exec(ctx, c.sql(sql), len(known), reader); err != nil || dryRun {
		return steps, err
	}
	return steps, tx.Commit(ctx)
}

// makeSchema creates the schema if it does not exist.
func (c *config) makeSchema(ctx context.Context, tx pgx.Tx) error {
	var exists bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, c.schema).Scan(&exists)
	if err == nil && !exists {
		_, err = tx.Exec(ctx, `CREATE SCHEMA "`+c.schema+`"`)
	}
	return err
}

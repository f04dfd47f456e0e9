package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ncruces/go-sqlite3"
	"github.com/thole-dev/thole/journal"
)

// Migrate brings the store at path up to the version of this program, as Open
// does, and returns one line for each step it ran. With dryRun it changes nothing and
// returns the steps it would run. It returns ErrNotFound if the file does not exist;
// its other errors are those of [Open].
func Migrate(ctx context.Context, path string, dryRun bool) ([]string, error) {
	f, err := locate(path, true)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(f.path); err != nil {
		return nil, fmt.Errorf("migrate: %w: sqlite store %s", journal.ErrNotFound, f.path)
	}
	f.mount(nil)
	defer f.unmount()
	c, err := dial(ctx, f.path, f.vfs, sqlite3.OPEN_READWRITE, 0)
	if err != nil {
		return nil, f.explain(ctx, err)
	}
	defer c.close()
	if _, err := f.versionOf(c); err != nil {
		return nil, f.explain(ctx, err)
	}
	steps, err := f.migrate(c, dryRun)
	return steps, f.explain(ctx, err)
}

// versionOf calls version in a read transaction, since another process may be creating
// the schema.
func (f *file) versionOf(c *conn) (int, error) {
	if err := c.prepare(`BEGIN`).exec(); err != nil {
		return 0, err
	}
	defer c.prepare(`ROLLBACK`).exec()
	return f.version(c)
}

// version returns the schema version of the file, 0 for an empty one. The database of
// another program is ErrInvalid, a newer version errors.ErrUnsupported. It reads more
// than once, so c must be in a transaction.
func (f *file) version(c *conn) (int, error) {
	version, err := c.integer(`PRAGMA user_version`)
	if err != nil {
		return 0, err
	}
	id, err := c.integer(`PRAGMA application_id`)
	if err != nil {
		return 0, err
	}
	tables, err := c.integer(`SELECT count(*) FROM sqlite_schema`)
	if err != nil {
		return 0, err
	}
	switch {
	case id == 0 && version == 0 && tables == 0:
		return 0, nil
	case id != applicationID:
		return 0, fmt.Errorf("%w: sqlite store %s is the database of another program; name another file", journal.ErrInvalid, f.path)
	case version < 0:
		return 0, sqlite3.CORRUPT
	case version > int64(len(migrations)):
		return 0, fmt.Errorf("%w: sqlite store %s has version %d, this program knows versions up to %d; use a newer program",
			errors.ErrUnsupported, f.path, version, len(migrations))
	}
	return int(version), nil
}

// migrate runs the missing steps in one transaction. The transaction holds the write
// lock, so that only one of several processes migrates the file.
func (f *file) migrate(c *conn, dryRun bool) (steps []string, err error) {
	if err := c.prepare(`BEGIN IMMEDIATE`).exec(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil || dryRun || len(steps) == 0 {
			c.SetInterrupt(context.Background())
			c.prepare(`ROLLBACK`).exec()
		}
	}()
	version, err := f.version(c)
	if err != nil {
		return nil, err
	}
	for n, m := range migrations[version:] {
		steps = append(steps, fmt.Sprintf("version %d: %s", version+n+1, m.what))
		if err := c.Exec(m.sql); err != nil {
			return nil, err
		}
	}
	if dryRun || len(steps) == 0 {
		return steps, nil
	}
	if err := c.Exec(fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d`, applicationID, len(migrations))); err != nil {
		return nil, err
	}
	return steps, c.prepare(`COMMIT`).exec()
}

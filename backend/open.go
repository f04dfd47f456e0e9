// Package backend opens the store that a DSN names.
package backend

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/pgstore"
	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/journal"
)

// engine is a kind of store.
type engine struct {
	form    string   // of its DSN: scheme, colon, and what follows
	schemes []string // of its DSN

	// files returns the files of a store at path on this machine, first the one that is
	// there if the store is. Nil: what follows the colon is no path.
	files func(path string) []string

	open    func(ctx context.Context, dsn, path string) (journal.Backend, error)
	migrate func(ctx context.Context, dsn, path string, dryRun bool) ([]string, error) // nil: it has no format of its own
}

// engines returns every kind of store. A new engine is one more element.
func engines() []engine {
	return []engine{
		{form: "mem:", schemes: []string{"mem"},
			open: func(context.Context, string, string) (journal.Backend, error) { return memstore.New(), nil }},
		{form: "sqlite:PATH", schemes: []string{"sqlite"}, files: sqlitestore.Files,
			open: func(ctx context.Context, _, path string) (journal.Backend, error) {
				return sqlitestore.Open(ctx, path, nil)
			},
			migrate: func(ctx context.Context, _, path string, dryRun bool) ([]string, error) {
				return sqlitestore.Migrate(ctx, path, dryRun)
			}},
		{form: "file:DIR", schemes: []string{"file"}, files: filestore.Files,
			open: func(ctx context.Context, _, path string) (journal.Backend, error) {
				return filestore.Open(ctx, path, nil)
			},
			migrate: func(ctx context.Context, _, path string, dryRun bool) ([]string, error) {
				return filestore.Migrate(ctx, path, dryRun)
			}},
		{form: "postgres://…", schemes: []string{"postgres", "postgresql"},
			open: func(ctx context.Context, dsn, _ string) (journal.Backend, error) { return pgstore.Open(ctx, dsn) },
			migrate: func(ctx context.Context, dsn, _ string, dryRun bool) ([]string, error) {
				return pgstore.Migrate(ctx, dsn, dryRun)
			}},
		{form: "http(s)://HOST", schemes: []string{"http", "https"},
			open: func(ctx context.Context, dsn, _ string) (journal.Backend, error) { return remote.Open(ctx, dsn, nil) }},
	}
}

// find returns the engine of dsn, and what follows the scheme. A DSN of no known form is
// ErrInvalid.
func find(dsn string) (engine, string, error) {
	scheme, path, ok := strings.Cut(dsn, ":")
	for _, e := range engines() {
		if ok && slices.Contains(e.schemes, scheme) && (path == "") == strings.HasSuffix(e.form, ":") {
			return e, path, nil
		}
	}
	return engine{}, "", fmt.Errorf("%w: store %q is none of: %s", journal.ErrInvalid, dsn, Forms())
}

// Open opens the backend that dsn names:
//
//	mem:          in memory, lost when the process ends
//	sqlite:PATH   one SQLite file, created if it does not exist
//	file:DIR      a directory of JSON files for people and git, created if it does not exist
//	postgres://…  a PostgreSQL database; see [pgstore.Open] for its DSN
//	http://HOST   another Thole server, also https; the token is in THOLE_TOKEN or before an @
//
// Programs that want few dependencies use an engine's package directly. A DSN of any
// other form is ErrInvalid.
func Open(ctx context.Context, dsn string) (journal.Backend, error) {
	e, path, err := find(dsn)
	if err != nil {
		return nil, err
	}
	return e.open(ctx, dsn, path)
}

// Migrate brings the store that dsn names to the format of this program, as Open does,
// and returns what was done or, with dryRun, would be. A store without a format of its
// own is ErrInvalid.
func Migrate(ctx context.Context, dsn string, dryRun bool) (steps []string, err error) {
	e, path, err := find(dsn)
	if err != nil {
		return nil, err
	}
	if e.migrate == nil {
		return nil, fmt.Errorf("%w: a store of the form %s has no format to migrate; these have: %s", journal.ErrInvalid, e.form,
			forms(func(e engine) bool { return e.migrate != nil }))
	}
	return e.migrate(ctx, dsn, path, dryRun)
}

// Forms lists the forms of DSNs that Open takes, for people.
func Forms() string { return forms(func(engine) bool { return true }) }

func forms(which func(engine) bool) string {
	var all []string
	for _, e := range engines() {
		if which(e) {
			all = append(all, e.form)
		}
	}
	return strings.Join(all, ", ")
}

// Local is a store that keeps its files on this machine. Paths are absolute.
type Local struct {
	Scheme string
	Path   string   // the file or folder that the DSN names
	Files  []string // first the one that is there if the store is; of a folder of its own: that one
}

// IsFolder reports whether the store is a folder of its own.
func (l *Local) IsFolder() bool { return l.Files[0] != l.Path }

// LocalStore returns the store of dsn, nil if it keeps no files on this machine. It has an
// error only if the working directory is gone.
func LocalStore(dsn string) (*Local, error) {
	e, path, err := find(dsn)
	if err != nil || e.files == nil {
		return nil, nil
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return &Local{Scheme: e.schemes[0], Path: path, Files: e.files(path)}, nil
}

package statetest_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/jackc/pgx/v5"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/backend/pgstore"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/all"
	"github.com/thole-dev/thole/state/statetest"
)

// The folders of testdata that are named after a version contain the same content three
// times, as that version of the program wrote it: in SQLite, in files and as a dump of
// PostgreSQL. Beside each store, *.json has the ids and fences of its workers. want.txt
// is what is read from all three. It was first written by that version itself, and
// changes only when the shapes change in which the same things are returned:
//
//	go test ./state/statetest -run TestStoresOfOldVersions -update
//
//	80d442c  leases without secrets, one signal of a name, no keys of decisions
//	d6b3dc7  the last version before schema 2 of events
var oldVersions = []string{"80d442c", "d6b3dc7"}

// oldStore is a copy of such a store.
type oldStore struct {
	version, engine string
	notes           map[string]string
	clock           *statetest.Clock // at the time at which the old program ended
	open            func() (journal.Backend, error)
}

// eachOldStore runs promise on a copy of each old store.
func eachOldStore(t *testing.T, promise func(t *testing.T, o *oldStore)) {
	engines := map[string]func(t *testing.T, dir string) func() (journal.Backend, error){"sqlite": oldSQLite, "file": oldFiles}
	if effort.All() {
		engines["postgres"] = oldPostgres
	}
	for _, version := range oldVersions {
		for engine, unpack := range engines {
			t.Run(version+"/"+engine, func(t *testing.T) {
				dir := filepath.Join("testdata", version)
				o := &oldStore{version: version, engine: engine}
				text, err := os.ReadFile(filepath.Join(dir, engine+".json"))
				if err == nil {
					err = json.Unmarshal(text, &o.notes)
				}
				if err != nil {
					t.Fatal(err)
				}
				now, err := time.Parse(time.RFC3339Nano, o.notes["now"])
				if err != nil {
					t.Fatal(err)
				}
				o.clock, o.open = statetest.ClockAt(now), unpack(t, dir)
				promise(t, o)
			})
		}
	}
}

// store opens the store; it sweeps only when told to.
func (o *oldStore) store(t *testing.T) *thole.Store {
	t.Helper()
	b, err := o.open()
	if err != nil {
		t.Fatal(err)
	}
	s, err := thole.Open(t.Context(), b, &thole.Options{Concepts: append(all.Concepts(), auth.Concept), Now: o.clock.Now, Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func oldSQLite(t *testing.T, dir string) func() (journal.Backend, error) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, unzipped(t, filepath.Join(dir, "sqlite.db.gz")), 0o600); err != nil {
		t.Fatal(err)
	}
	return func() (journal.Backend, error) { return sqlitestore.Open(context.Background(), path, nil) }
}

func oldFiles(t *testing.T, dir string) func() (journal.Backend, error) {
	to := t.TempDir()
	files := tar.NewReader(bytes.NewReader(unzipped(t, filepath.Join(dir, "file.tar.gz"))))
	for {
		h, err := files.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else {
			var data []byte
			if data, err = io.ReadAll(files); err == nil {
				err = os.WriteFile(path, data, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return func() (journal.Backend, error) { return filestore.Open(context.Background(), to, nil) }
}

func oldPostgres(t *testing.T, dir string) func() (journal.Backend, error) {
	dsn := pgtest.Start(t).Database(t)
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	dump := unzipped(t, filepath.Join(dir, "postgres.sql.gz"))
	if _, err := c.PgConn().Exec(t.Context(), string(dump)).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return func() (journal.Backend, error) { return pgstore.Open(context.Background(), dsn) }
}

func unzipped(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestStoresOfOldVersionsRead(t *testing.T) {
	eachOldStore(t, func(t *testing.T, o *oldStore) {
		got, err := readStore(t.Context(), o.store(t), o.notes)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", o.version, "want.txt")
		if *update && o.engine == "sqlite" {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("the content read differs:\n%s", udiff.Unified("then", "now", string(want), got))
		}
	})
}

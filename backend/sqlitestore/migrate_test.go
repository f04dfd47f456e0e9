package sqlitestore_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/thole-dev/thole/backend/sqlitestore"
)

func TestMigrateWithNothingToDoWritesNothingBesideAnOpenStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thole.db")
	s := open(t, path, nil)
	commit(t, s, "user:1", "a", `1`)
	files := func() []byte {
		t.Helper()
		var all []byte
		for _, name := range []string{path, path + "-wal"} {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, data...)
		}
		return all
	}
	before := files()
	if steps, err := sqlitestore.Migrate(t.Context(), path, false); err != nil || len(steps) != 0 {
		t.Fatalf("migrate: got %q, %v; want nothing to do", steps, err)
	}
	if !bytes.Equal(files(), before) {
		t.Error("migrate with nothing to do has written to the file or its log")
	}
	if _, err := s.Heads(t.Context(), "user:1"); err != nil {
		t.Errorf("heads after it: %v", err)
	}
	commit(t, s, "user:1", "a", `2`)
}

// A connection that did not sync its commits used to keep their last frames in memory,
// and every other process then read a log without them.
func TestOthersReadWhatMigrateCommitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thole.db")
	other, err := sqlite3.Open("file:" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Exec(`PRAGMA journal_mode = WAL; CREATE TABLE t (x); DROP TABLE t`); err != nil {
		t.Fatal(err)
	}
	if steps, err := sqlitestore.Migrate(t.Context(), path, false); err != nil || len(steps) == 0 {
		t.Fatalf("migrate: got %q, %v; want steps", steps, err)
	}
	if err := other.Exec(`SELECT count(*) FROM sqlite_schema`); err != nil {
		t.Errorf("another process reads: %v", err)
	}
	commit(t, open(t, path, nil), "user:1", "a", `1`)
}

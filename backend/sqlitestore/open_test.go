package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/journal"
)

// execSQL runs SQL on the file as another program would.
func execSQL(t testing.TB, path, sql string) {
	t.Helper()
	db, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Exec(sql); err != nil {
		t.Fatal(err)
	}
}

// made returns the path of a closed store with some events.
func made(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "thole.db")
	s := open(t, path, nil)
	for range 100 {
		commit(t, s, "user:1", "thread/a", `"`+strings.Repeat("x", 500)+`"`)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAPathThatCannotBeAStoreIsExplained(t *testing.T) {
	tests := []struct {
		name string
		path func(t *testing.T) string
		is   error  // sentinel
		says string // what the error tells the user to do
	}{
		{"empty", func(t *testing.T) string { return "" }, journal.ErrInvalid, "empty"},
		{"directory", func(t *testing.T) string { return t.TempDir() }, journal.ErrInvalid, "is a directory; name a file"},
		{"device", func(t *testing.T) string { return "/dev/null" }, journal.ErrInvalid, "no regular file"},
		{"missing directory", func(t *testing.T) string {
			return filepath.Join(t.TempDir(), "no", "thole.db")
		}, journal.ErrInvalid, "create it first"},
		{"no database", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "notes.txt")
			write(t, path, []byte(strings.Repeat("Dear diary, ", 1000)))
			return path
		}, journal.ErrCorrupt, "is no SQLite database"},
		{"another program's", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "other.db")
			execSQL(t, path, `CREATE TABLE t (x)`)
			return path
		}, journal.ErrInvalid, "another program"},
		{"newer version", func(t *testing.T) string {
			path := made(t)
			execSQL(t, path, `PRAGMA user_version = 99`)
			return path
		}, errors.ErrUnsupported, "has version 99, this program knows versions up to 1"},
		{"truncated to a page boundary", func(t *testing.T) string { return truncated(t, 8192) }, journal.ErrCorrupt, "restore a backup"},
		{"truncated in the middle of the last page", func(t *testing.T) string { return truncated(t, -100) }, journal.ErrCorrupt, "restore a backup"},
		{"truncated in the header", func(t *testing.T) string { return truncated(t, 50) }, journal.ErrCorrupt, "restore a backup"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := tt.path(t)
			s, err := sqlitestore.Open(context.Background(), path, nil)
			if err == nil {
				s.Close()
				t.Fatalf("open: got a store, want %v", tt.is)
			}
			if !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("open: got %q; want %q, with the path and %q", err, tt.is, tt.says)
			}
		})
	}
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// truncated returns a store cut to size bytes, or by -size bytes.
func truncated(t testing.TB, size int64) string {
	path := made(t)
	if size < 0 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatACrashLeavesIsOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thole.db")
	s := open(t, path, nil)
	for range 20 {
		commit(t, s, "user:1", "a", `"before the crash"`)
	}
	// These are the files after the machine stopped: none was closed, and a checkpoint
	// had begun to extend the database by a page.
	crashed := filepath.Join(t.TempDir(), "thole.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if suffix == "" {
			data = append(data, make([]byte, 1000)...)
		}
		write(t, crashed+suffix, data)
	}
	again := open(t, crashed, nil)
	heads, err := again.Heads(t.Context(), "user:1")
	if err != nil || heads[0].Last.Seq != 20 {
		t.Fatalf("head: got %v, %v; want 20 events", heads, err)
	}
	if err := again.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAFileOfVersion1IsOpened(t *testing.T) {
	golden, err := os.ReadFile("testdata/v1.db")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "v1.db")
	write(t, path, golden)
	s := open(t, path, nil)
	page, err := s.Read(t.Context(), "project:golden", journal.ReadQuery{})
	if err != nil || len(page.Events) != 2 {
		t.Fatalf("read: got %v, %v; want two events", page, err)
	}
	got := page.Events[1]
	if got.Stream != "thread/a" || got.Type != "message.added" || got.Actor != "user:42" || got.Cause != "sess_1" ||
		got.Subject != "user:42" || len(got.Refs) != 1 || got.Schema != 2 || string(got.Data) != `{"text":"grüß dich"}` ||
		got.Time.UnixMicro() != 1767323045000006 {
		t.Errorf("event: got %+v; want the event that was written", got)
	}
	records, err := s.Get(t.Context(), "project:golden", "thread/a")
	if err != nil || records[0].Version != got.Position || string(records[0].Value) != `{"turns":2}` ||
		!records[0].Notify || records[0].Expires.UnixMicro() != 1767326645000006 {
		t.Errorf("record: got %+v, %v; want what was written", records, err)
	}
	commit(t, s, "project:golden", "thread/a", `3`)
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestMigrateTellsWhatItWouldDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thole.db")
	if _, err := sqlitestore.Migrate(t.Context(), path, true); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("migrate a missing file: got %v, want ErrNotFound", err)
	}
	write(t, path, nil) // an empty file is a database of version 0
	for range 2 {
		steps, err := sqlitestore.Migrate(t.Context(), path, true)
		if err != nil || len(steps) != 1 || !strings.HasPrefix(steps[0], "version 1: ") {
			t.Fatalf("dry run: got %q, %v; want one step to version 1", steps, err)
		}
	}
	if steps, err := sqlitestore.Migrate(t.Context(), path, false); err != nil || len(steps) != 1 {
		t.Fatalf("migrate: got %q, %v; want one step", steps, err)
	}
	if steps, err := sqlitestore.Migrate(t.Context(), path, false); err != nil || len(steps) != 0 {
		t.Fatalf("migrate again: got %q, %v; want nothing to do", steps, err)
	}
	commit(t, open(t, path, nil), "user:1", "a", `1`)
}

// Two processes that switched a new file to a write-ahead log at the same time used to
// fail each other, and one that opened the file while another one created the schema
// took it for another program's.
func TestManyMayOpenANewFileAtOnce(t *testing.T) {
	dir := t.TempDir()
	for round := range 100 {
		path := filepath.Join(dir, fmt.Sprintf("%d.db", round))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				s, err := sqlitestore.Open(t.Context(), path, nil)
				if err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
				if err := s.Close(); err != nil {
					t.Errorf("round %d: close: %v", round, err)
				}
			})
		}
		wg.Wait()
	}
}

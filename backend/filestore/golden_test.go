package filestore_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/filestore"
)

var golden = flag.String("golden", "", "write a new golden directory of the current format to this path")

var goldenTime = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

// goldenCommit has one of everything.
var goldenCommit = thole.Commit{
	Space: "project:Golden", Now: goldenTime, Actor: "user:42", Cause: "sess_1",
	Events: []thole.Event{
		{Stream: "thread/a", Type: "thread.created"},
		{Stream: "thread/a", Type: "message.added", Subject: "user:42", Refs: []string{"thrd_1"}, Schema: 2, Data: []byte(`{"text":"grüß dich"}`)},
	},
	Writes: []thole.Write{
		{Key: "thread/a", Value: []byte(`{"turns":2}`), Expires: goldenTime.Add(time.Hour), Notify: true},
		{Key: "Thread/A", Value: []byte("{\n}"), Schema: 3},
	},
}

// TestGoldenDirectoryCanBeMade writes testdata/vN when a format is released.
// Without the flag it makes one and throws it away.
func TestGoldenDirectoryCanBeMade(t *testing.T) {
	path := *golden
	if path == "" {
		path = filepath.Join(t.TempDir(), "golden")
	}
	s := open(t, path, nil)
	results, err := s.Commit(t.Context(), []thole.Commit{goldenCommit})
	if err != nil || results[0].Conflict != nil {
		t.Fatalf("commit: got %v, %v; want success", results, err)
	}
	s.Close()
	if err := os.RemoveAll(filepath.Join(path, ".thole")); err != nil {
		t.Fatal(err)
	}
}

func TestEveryFormatOpens(t *testing.T) {
	formats, err := filepath.Glob("testdata/v*")
	if err != nil || len(formats) == 0 {
		t.Fatalf("golden directories: got %v, %v; want some", formats, err)
	}
	for _, path := range formats {
		dir := filepath.Join(t.TempDir(), "store")
		if err := os.CopyFS(dir, os.DirFS(path)); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir, nil)
		page, err := s.Read(t.Context(), "project:Golden", thole.ReadQuery{})
		if err != nil || len(page.Events) != 2 {
			t.Fatalf("%s: got %v, %v; want 2 events", path, page, err)
		}
		e, want := page.Events[1], goldenCommit.Events[1]
		if string(e.Data) != string(want.Data) || e.Subject != want.Subject || !slices.Equal(e.Refs, want.Refs) || !e.Time.Equal(goldenTime) {
			t.Errorf("%s: got event %+v, want %+v", path, e, want)
		}
		records, err := s.Get(t.Context(), "project:Golden", "thread/a", "Thread/A")
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range records {
			w := goldenCommit.Writes[i]
			if string(r.Value) != string(w.Value) || !r.Expires.Equal(w.Expires) || r.Notify != w.Notify || r.Schema != w.Schema || r.Version != e.Position {
				t.Errorf("%s: got record %+v, want %+v", path, r, w)
			}
		}
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestANewerFormatIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thole.json"), []byte(`{"format": 99}`), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := filestore.Open(context.Background(), dir, nil)
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "newer program") {
		t.Errorf("open: got %v, want ErrUnsupported and what to do", err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".thole")); err == nil {
		t.Error("open: it wrote to a store that it does not know")
	}
	if err := os.WriteFile(filepath.Join(dir, "thole.json"), []byte(`<<<<`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := filestore.Open(context.Background(), dir, nil); !errors.Is(err, thole.ErrCorrupt) {
		t.Errorf("open with a damaged format: got %v, want ErrCorrupt", err)
	}
}

func TestMigrateSaysWhatItWouldDo(t *testing.T) {
	dir := t.TempDir()
	if _, err := filestore.Migrate(t.Context(), filepath.Join(dir, "absent"), true); !errors.Is(err, thole.ErrNotFound) {
		t.Errorf("migrate what is not there: got %v, want ErrNotFound", err)
	}
	for _, dryRun := range []bool{true, false} {
		steps, err := filestore.Migrate(t.Context(), dir, dryRun)
		if err != nil || len(steps) != 1 {
			t.Fatalf("migrate an empty directory, dry run %v: got %v, %v; want one step", dryRun, steps, err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || dryRun != (len(entries) == 0) {
			t.Errorf("dry run %v: got %v, %v", dryRun, entries, err)
		}
	}
	if steps, err := filestore.Migrate(t.Context(), dir, false); err != nil || len(steps) != 0 {
		t.Errorf("migrate again: got %v, %v; want nothing to do", steps, err)
	}
}

func TestAFileIsNoStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{path, "", filepath.Join(path+"2", "a")} {
		if _, err := filestore.Open(context.Background(), bad, nil); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("open %q: got %v, want ErrInvalid", bad, err)
		}
	}
}

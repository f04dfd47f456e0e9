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

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/journal"
)

var golden = flag.String("golden", "", "write a new golden directory of the current format to this path")

var goldenTime = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

// goldenCommit uses every field.
var goldenCommit = journal.Commit{
	Space: "project:Golden", Now: goldenTime, Actor: "user:42", Cause: "sess_1",
	Events: []journal.Event{
		{Stream: "thread/a", Type: "thread.created"},
		{Stream: "thread/a", Type: "message.added", Subject: "user:42", Refs: []string{"thrd_1"}, Schema: 2, Data: []byte(`{"text":"grüß dich"}`)},
	},
	Writes: []journal.Write{
		{Key: "thread/a", Value: []byte(`{"turns":2}`), Expires: goldenTime.Add(time.Hour), Notify: true},
		{Key: "Thread/A", Value: []byte("{\n}"), Schema: 3},
	},
}

// TestGoldenDirectoryCanBeMade writes testdata/vN when a format is released. Without
// the flag it writes a temporary one.
func TestGoldenDirectoryCanBeMade(t *testing.T) {
	path := *golden
	if path == "" {
		path = filepath.Join(t.TempDir(), "golden")
	}
	s := open(t, path, nil)
	results, err := s.Commit(t.Context(), []journal.Commit{goldenCommit})
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
		page, err := s.Read(t.Context(), "project:Golden", journal.ReadQuery{})
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

// makeKinds makes a store with every kind of line, and its manifest: redacted and
// erased events, a removed stream, a deleted record, a second segment, an edit by hand,
// commits that were synced together, and JSON with white space.
func makeKinds(t *testing.T, path string) {
	opts := &filestore.Options{SegmentBytes: 700}
	s := open(t, path, opts)
	both := []journal.Commit{
		{Space: "user:1", Now: goldenTime, Actor: "user:42", Cause: "sess_1",
			Events: []journal.Event{{Stream: "s", Type: "x.made", Subject: "user:42", Data: []byte(`"private"`)}},
			Writes: []journal.Write{{Key: "k", Value: []byte(`"old"`)}, {Key: "gone", Value: []byte(`1`)}, {Key: "below/private", Value: []byte(`1`)}}},
		{Space: "user:1", Now: goldenTime, Events: []journal.Event{{Stream: "private", Type: "x.made"}}, Writes: []journal.Write{{Key: "gone"}}},
		{Space: "user:1", Now: goldenTime, Writes: []journal.Write{{Key: "quiet", Value: []byte(" 1 ")}}},
	}
	results, err := s.Commit(t.Context(), both)
	if err != nil {
		t.Fatal(err)
	}
	flush(t, s)
	if err := s.Purge(t.Context(), "user:1", journal.Purge{Streams: []string{"private"}, Events: []journal.Position{results[0].Last}}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	edit(t, filepath.Join(recordsDir(path), "k.json"), `"old"`, `"by hand"`)
	s = open(t, path, opts)
	later := func(value string) journal.Commit {
		return journal.Commit{Space: "user:1", Now: goldenTime, Events: []journal.Event{{Stream: "s", Type: "x.made", Data: []byte(value)}},
			Writes: []journal.Write{{Key: "later", Value: []byte(value)}}}
	}
	for _, batch := range [][]journal.Commit{{later("2")}, {later("3"), later(" 4 ")}} {
		if _, err := s.Commit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
}

// The test opens a store that an earlier program left, manifest included: nothing is
// repaired or adopted, and commits go on.
func TestEveryKindOfLineOpens(t *testing.T) {
	if *golden != "" {
		makeKinds(t, *golden+"-kinds")
	}
	made := filepath.Join(t.TempDir(), "made")
	makeKinds(t, made)
	for name, path := range map[string]string{"golden": "testdata/kinds", "made now": made} {
		dir := filepath.Join(t.TempDir(), "store")
		if err := os.CopyFS(dir, os.DirFS(path)); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir, nil)
		h := head(t, s)
		page, err := s.Read(t.Context(), "user:1", journal.ReadQuery{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range page.Events {
			got = append(got, e.Type+" "+e.Actor)
		}
		if want := []string{"x.made ", "space.adopted user:hand", "x.made ", "x.made ", "x.made "}; !slices.Equal(got, want) {
			t.Errorf("%s: events: got %q, want %q", name, got, want)
		}
		if len(h.Epochs) != 2 || !h.Epochs[1].Adopted || h.Last.Seq != 7 || len(s.Report()) > 0 {
			t.Errorf("%s: head: got %+v and %q, want two epochs and nothing to report", name, h, s.Report())
		}
		for key, want := range map[string]string{"k": `"by hand"`, "gone": "", "quiet": " 1 ", "later": " 4 ", "below/private": "1"} {
			if got := value(t, s, key); got != want {
				t.Errorf("%s: record %s: got %s, want %s", name, key, got, want)
			}
		}
		if last := put(t, s, "later", `5`).Last; last.Epoch != h.Last.Epoch || last.Seq != 8 {
			t.Errorf("%s: it resumed at %v, want after %v", name, last, h.Last)
		}
		flush(t, s)
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
	if _, err := filestore.Open(context.Background(), dir, nil); !errors.Is(err, journal.ErrCorrupt) {
		t.Errorf("open with a damaged format: got %v, want ErrCorrupt", err)
	}
}

func TestMigrateSaysWhatItWouldDo(t *testing.T) {
	dir := t.TempDir()
	if _, err := filestore.Migrate(t.Context(), filepath.Join(dir, "absent"), true); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("migrate a missing document: got %v, want ErrNotFound", err)
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
		if _, err := filestore.Open(context.Background(), bad, nil); !errors.Is(err, journal.ErrInvalid) {
			t.Errorf("open %q: got %v, want ErrInvalid", bad, err)
		}
	}
}

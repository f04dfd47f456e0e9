package filestore_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/journal"
)

// put commits a record with an event and returns the result.
func put(t testing.TB, b journal.Backend, key, value string) journal.Result {
	t.Helper()
	results, err := b.Commit(t.Context(), []journal.Commit{{
		Space: "user:1", Actor: "agent:a",
		Events: []journal.Event{{Stream: "s", Type: "x.made", Data: []byte(`1`)}},
		Writes: []journal.Write{{Key: key, Value: []byte(value)}},
	}})
	if err != nil || results[0].Conflict != nil {
		t.Fatalf("commit: got %v, %v; want success", results, err)
	}
	return results[0]
}

func value(t testing.TB, b journal.Backend, key string) string {
	t.Helper()
	records, err := b.Get(t.Context(), "user:1", key)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	return string(records[0].Value)
}

func head(t testing.TB, b journal.Backend) journal.Head {
	t.Helper()
	heads, err := b.Heads(t.Context(), "user:1")
	if err != nil {
		t.Fatal(err)
	}
	return heads[0]
}

// adopted returns the newest event's data; the event must report an adoption.
func adopted(t testing.TB, b journal.Backend) (a struct {
	Reasons          []string
	Changed, Deleted []string
}) {
	t.Helper()
	page, err := b.Read(t.Context(), "user:1", journal.ReadQuery{Backward: true, Limit: 1})
	if err != nil || len(page.Events) != 1 {
		t.Fatalf("read: got %v, %v", page, err)
	}
	e := page.Events[0]
	if e.Type != "space.adopted" || e.Actor != "user:hand" {
		t.Fatalf("the newest event: got %s by %s, want space.adopted by user:hand", e.Type, e.Actor)
	}
	if err := json.Unmarshal(e.Data, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func flush(t testing.TB, s *filestore.Store) {
	t.Helper()
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// edit replaces a part of a file, as an editor would.
func edit(t testing.TB, path, old, new string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		t.Fatalf("%s: got %s, want %s in it", path, data, old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// recordsDir returns the folder with the records of user:1.
func recordsDir(dir string) string { return filepath.Join(dir, "user", "1", "records") }

// each runs a test twice: the files change while the store is closed, and while it is
// open.
func each(t *testing.T, test func(t *testing.T, dir string, begin, again func() *filestore.Store)) {
	for _, running := range []bool{false, true} {
		t.Run(map[bool]string{false: "closed", true: "open"}[running], func(t *testing.T) {
			dir := t.TempDir()
			var s *filestore.Store
			begin := func() *filestore.Store {
				s = open(t, dir, nil)
				return s
			}
			test(t, dir, begin, func() *filestore.Store {
				if running {
					return s
				}
				return begin()
			})
		})
	}
}

// pause closes the store unless it stays open.
func pause(t *testing.T, s *filestore.Store) {
	flush(t, s)
	if strings.HasSuffix(t.Name(), "/closed") {
		s.Close()
	}
}

func TestARecordThatWasEditedIsAdopted(t *testing.T) {
	each(t, func(t *testing.T, dir string, begin, again func() *filestore.Store) {
		s := begin()
		put(t, s, "a/b", `{"title":"old"}`)
		last := put(t, s, "gone", `1`).Last
		pause(t, s)
		edit(t, filepath.Join(recordsDir(dir), "a", "b.json"), `"old"`, `"new"`)
		if err := os.Remove(filepath.Join(recordsDir(dir), "gone.json")); err != nil {
			t.Fatal(err)
		}
		s = again()
		if got := value(t, s, "a/b"); got != `{"title":"new"}` {
			t.Errorf("value: got %s, want what was edited", got)
		}
		if got := value(t, s, "gone"); got != "" {
			t.Errorf("the deleted record: got %s, want none", got)
		}
		a := adopted(t, s)
		if !slices.Equal(a.Changed, []string{"a/b"}) || !slices.Equal(a.Deleted, []string{"gone"}) {
			t.Errorf("adopted: got %v and %v, want a/b and gone", a.Changed, a.Deleted)
		}
		h := head(t, s)
		if len(h.Epochs) != 2 || !strings.HasPrefix(h.Last.Epoch, "0002") {
			t.Errorf("head: got %v, want a second epoch", h)
		}
		if err := h.Resume(last); err != nil {
			t.Errorf("a cursor before the edit: got %v, want it resumed", err)
		}
		flush(t, s)
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
		data, err := os.ReadFile(filepath.Join(recordsDir(dir), "a", "b.json"))
		if err != nil || !strings.Contains(string(data), h.Last.String()) {
			t.Errorf("file: got %s, %v; want it with version %v", data, err, h.Last)
		}
	})
}

func TestACheckSeesAnEdit(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	at := put(t, s, "k", `1`).Last
	flush(t, s)
	edit(t, filepath.Join(recordsDir(dir), "k.json"), `"value": 1`, `"value": 2`)
	results, err := s.Commit(t.Context(), []journal.Commit{{
		Space: "user:1", Checks: []journal.Check{{Key: "k", At: at}}, Writes: []journal.Write{{Key: "k", Value: []byte(`3`)}},
	}})
	if err != nil || results[0].Conflict == nil {
		t.Fatalf("commit over an edit: got %v, %v; want a conflict", results, err)
	}
	if got := value(t, s, "k"); got != "2" {
		t.Errorf("value: got %s, want the edit", got)
	}
}

// copyDir copies a store's files, without those that git ignores.
func copyDir(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(to, ".thole")); err != nil {
		t.Fatal(err)
	}
}

func TestAnOlderStateIsAdoptedAndCursorsBeyondItAreTrimmed(t *testing.T) {
	each(t, func(t *testing.T, dir string, begin, again func() *filestore.Store) {
		s := begin()
		put(t, s, "k", `"old"`)
		kept := put(t, s, "l", `1`).Last
		flush(t, s)
		old := filepath.Join(t.TempDir(), "old")
		copyDir(t, dir, old)
		put(t, s, "k", `"new"`)
		lost := put(t, s, "later", `1`).Last
		pause(t, s)
		user := filepath.Join(dir, "user")
		if err := os.RemoveAll(user); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(user, os.DirFS(filepath.Join(old, "user"))); err != nil {
			t.Fatal(err)
		}
		s = again()
		put(t, s, "after", `1`)
		if got := value(t, s, "k") + value(t, s, "later"); got != `"old"` {
			t.Errorf("values: got %s, want the old ones", got)
		}
		h := head(t, s)
		if len(h.Epochs) != 2 || h.Epochs[0].Last != kept.Seq || h.Last.Seq != kept.Seq+2 {
			t.Errorf("head: got %v, want a second epoch behind %v", h, kept)
		}
		if _, err := s.Read(t.Context(), "user:1", journal.ReadQuery{After: lost}); !errors.Is(err, journal.ErrTrimmed) {
			t.Errorf("a cursor into removed history: got %v, want ErrTrimmed", err)
		}
		page, err := s.Read(t.Context(), "user:1", journal.ReadQuery{After: kept})
		if err != nil || len(page.Events) != 2 || page.Events[0].Type != "space.adopted" {
			t.Errorf("a cursor before it: got %v, %v; want the adoption and the commit", page.Events, err)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAWatcherHearsOfARevertWhileTheStoreIsOpen(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	s, err := thole.Open(t.Context(), b, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put(t, b, "k", `"old"`)
	flush(t, b)
	old := filepath.Join(t.TempDir(), "old")
	copyDir(t, dir, old)
	put(t, b, "k", `"new"`)
	flush(t, b)
	sp := s.Space("user:1")
	w, err := sp.Watch(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := os.RemoveAll(filepath.Join(dir, "user")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "user"), os.DirFS(filepath.Join(old, "user"))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if batch, err := w.Next(ctx); !errors.Is(err, journal.ErrTrimmed) {
		t.Fatalf("next: got %v, %v; want ErrTrimmed", batch, err)
	}
	again, err := sp.Watch(ctx, &thole.WatchOptions{Oldest: true})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	batch, err := again.Next(ctx)
	if err != nil || len(batch) != 2 || batch[1].Type != "space.adopted" {
		t.Errorf("from the oldest on: got %d events, %v; want the old one and the adoption", len(batch), err)
	}
	if got := value(t, b, "k"); got != `"old"` {
		t.Errorf("value: got %s, want the old one", got)
	}
}

func TestWatchersAreTrimmedByAnEditAndGoOn(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	s, err := thole.Open(t.Context(), b, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put(t, b, "k", `"old"`)
	flush(t, b)
	sp := s.Space("user:1")
	before := head(t, b).Last
	live, filtered := watch(t, sp, nil), watch(t, sp, &thole.WatchOptions{Streams: []string{"s"}})
	put(t, b, "other", `1`)
	flush(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, w := range []*thole.Watch{live, filtered} {
		if batch, err := w.Next(ctx); err != nil || len(batch) != 1 {
			t.Fatalf("before the edit: got %v, %v", batch, err)
		}
	}
	edit(t, filepath.Join(recordsDir(dir), "k.json"), `"old"`, `"new"`)
	for _, w := range []*thole.Watch{live, filtered} {
		if batch, err := w.Next(ctx); !errors.Is(err, journal.ErrTrimmed) || !strings.Contains(err.Error(), "adopted") {
			t.Fatalf("next: got %v, %v; want ErrTrimmed because of the adoption", batch, err)
		}
	}
	if got := value(t, b, "k"); got != `"new"` {
		t.Errorf("the state anew: got %s, want the edit", got)
	}
	put(t, b, "k", `"newer"`)
	resumed := watch(t, sp, &thole.WatchOptions{After: before})
	for name, c := range map[string]struct {
		watch *thole.Watch
		want  []string
	}{
		"the watch itself":      {live, []string{"space.adopted", "x.made"}},
		"one of another stream": {filtered, []string{"x.made"}},
		"one with a cursor":     {resumed, []string{"x.made", "space.adopted", "x.made"}},
	} {
		var heard []string
		for len(heard) < len(c.want) {
			batch, err := c.watch.Next(ctx)
			if err != nil {
				t.Fatalf("%s: got %v after %v", name, err, heard)
			}
			for _, d := range batch {
				heard = append(heard, d.Type)
			}
		}
		if !slices.Equal(heard, c.want) {
			t.Errorf("%s: got %v, want %v", name, heard, c.want)
		}
	}
}

func watch(t *testing.T, sp *thole.Space, opts *thole.WatchOptions) *thole.Watch {
	t.Helper()
	w, err := sp.Watch(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func TestACopyGoesOnInAnEpochOfItsOwn(t *testing.T) {
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	s := open(t, dir, nil)
	put(t, s, "k", `1`)
	flush(t, s)
	copyDir(t, dir, copied)
	c := open(t, copied, nil)
	if got, want := head(t, c).Last, head(t, s).Last; got != want {
		t.Errorf("head of the copy: got %v, want %v", got, want)
	}
	here, there := put(t, s, "k", `2`).Last, put(t, c, "k", `2`).Last
	if here.Epoch == there.Epoch || here.Seq != there.Seq {
		t.Errorf("commits to both: got %v and %v, want epochs of their own", here, there)
	}
}

func TestADamagedLineIsCorruptWithItsPlace(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	put(t, s, "k", `"first"`)
	put(t, s, "k", `"second"`)
	put(t, s, "k", `"third"`)
	s.Close()
	segment := filepath.Join(dir, "user", "1", "journal", "0000000000000001.jsonl")
	edit(t, segment, `second`, `SECOND`)
	s = open(t, dir, nil)
	_, err := s.Heads(t.Context(), "user:1")
	if !errors.Is(err, journal.ErrCorrupt) || !strings.Contains(err.Error(), segment) || !strings.Contains(err.Error(), "at byte") {
		t.Errorf("a damaged line: got %v, want ErrCorrupt with file and offset", err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, journal.ErrCorrupt) {
		t.Errorf("check: got %v, want ErrCorrupt", err)
	}
	edit(t, segment, `SECOND`, `second`)
	if got := value(t, s, "k"); got != `"third"` {
		t.Errorf("after it was mended: got %s", got)
	}
}

func TestATornTailIsCutAndReported(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	put(t, s, "k", `1`)
	s.Close()
	segment := filepath.Join(dir, "user", "1", "journal", "0000000000000001.jsonl")
	f, err := os.OpenFile(segment, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"crc":"12345678","at":"0001`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	s = open(t, dir, nil)
	put(t, s, "k", `2`)
	if got := s.Report(); len(got) != 1 || !strings.Contains(got[0], "cut 28 bytes") {
		t.Errorf("report: got %q, want one line that says what was cut", got)
	}
	if n := len(head(t, s).Epochs); n != 1 {
		t.Errorf("epochs: got %d, want 1: nothing that was acknowledged is gone", n)
	}
}

func TestARecordThatIsNoJSONSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	put(t, s, "k", `{"a":1}`)
	s.Close()
	path := filepath.Join(recordsDir(dir), "k.json")
	edit(t, path, `"a": 1`, "<<<<<<< HEAD")
	s = open(t, dir, nil)
	_, err := s.Get(t.Context(), "user:1", "k")
	if !errors.Is(err, journal.ErrCorrupt) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "mend it") {
		t.Errorf("a record with a merge conflict: got %v, want ErrCorrupt with the file and what to do", err)
	}
}

package sqlitestore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole/backend/backendtest/model"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/journal"
)

// A damaged file is refused, or read with errors for what cannot be read; nothing
// panics or hangs.
func FuzzDamagedFile(f *testing.F) {
	golden, err := os.ReadFile("testdata/v1.db")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(0), []byte("SQLite format 3"))
	f.Add(uint32(60), []byte{0, 0, 0, 2})                 // its version
	f.Add(uint32(60), []byte{0x80, 0, 0, 0})              // below zero
	f.Add(uint32(100), []byte{13, 0, 0, 0, 200})          // the schema's page
	f.Add(uint32(3970), []byte("0"))                      // the text of a table
	f.Add(uint32(4096), []byte{5})                        // a page's kind
	f.Add(uint32(12<<10), []byte(`[{"epoch":"0001","fi`)) // anywhere
	f.Add(uint32(len(golden)-40), []byte("not JSON"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, at uint32, data []byte) {
		path := filepath.Join(dir, "damaged.db")
		file := append([]byte{}, golden...)
		copy(file[int(at)%len(file):], data)
		write(t, path, file)
		defer os.Remove(path + "-wal")
		s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Readers: 1})
		if err != nil {
			return
		}
		defer s.Close()
		checked := s.Check(t.Context())
		if _, err := model.Observe(t.Context(), s); err != nil && checked == nil && errors.Is(err, journal.ErrCorrupt) && strings.Contains(err.Error(), "is damaged") {
			t.Errorf("Check found nothing, but: %v", err)
		}
		s.Commit(t.Context(), []journal.Commit{{Space: "project:golden", Events: []journal.Event{{Stream: "a", Type: "note.added"}}}})
	})
}

// A path is the name of exactly one file, whatever is in it.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"thole.db", "a?mode=memory", "a#b", "%41", "a&vfs=x", " ", "é\xff", ":memory:", "file:x", "a;b'\"", "..."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" || len(name) > 100 || strings.ContainsAny(name, "/\x00") || name == "." || name == ".." {
			t.Skip("no name of a file")
		}
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		s, err := sqlitestore.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		commit(t, s, "user:1", "a", `1`)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		files, err := os.ReadDir(dir)
		if err != nil || len(files) != 1 || files[0].Name() != name {
			t.Errorf("open %q made %q, %v", name, files, err)
		}
	})
}

package filestore_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/journal"
)

func TestAStoreInANewFolderIsForItsOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	fill(t, dir, "project:a")
	fill(t, dir, "project:b") // now the folder exists
	wantRights(t, dir, 0o700, 0o600, nil)
}

func TestNewFilesFollowTheRightsOfAFolderThatWasThere(t *testing.T) {
	for _, rights := range []fs.FileMode{0o700, 0o750, 0o755} {
		dir := filepath.Join(t.TempDir(), "store")
		if err := os.Mkdir(dir, rights); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		rights = info.Mode().Perm() // less the umask
		fill(t, dir, "project:a")
		wantRights(t, dir, rights, rights&0o666, nil)
	}
}

func TestAnExistingFileKeepsItsRights(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	fill(t, dir, "project:a")
	open := map[string]fs.FileMode{filepath.Join(dir, "thole.json"): 0o640}
	for path, rights := range open {
		if err := os.Chmod(path, rights); err != nil {
			t.Fatal(err)
		}
	}
	fill(t, dir, "project:b")
	wantRights(t, dir, 0o700, 0o600, open)
}

// fill commits an event and a record to a space of the store in dir.
func fill(t *testing.T, dir, space string) {
	t.Helper()
	b, err := filestore.Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	commit := journal.Commit{
		Space:  space,
		Events: []journal.Event{{Stream: "app/x", Type: "app.x"}},
		Writes: []journal.Write{{Key: "app/deep/name", Value: json.RawMessage(`1`)}},
	}
	if _, err := b.Commit(t.Context(), []journal.Commit{commit}); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// wantRights checks dir and all that is below it.
func wantRights(t *testing.T, dir string, forDirs, forFiles fs.FileMode, except map[string]fs.FileMode) {
	t.Helper()
	if runtime.GOOS == "windows" {
		return // file modes mean nothing there
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := forFiles
		if rights, ok := except[path]; ok {
			want = rights
		} else if d.IsDir() {
			want = forDirs
		}
		if !d.IsDir() {
			files++
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s: got rights %o, want %o", path, got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 5 {
		t.Errorf("got %d files, want those of a whole store", files)
	}
}

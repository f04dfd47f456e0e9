package sqlitestore_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/journal"
)

func TestANewDatabaseIsForItsOwnerAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	commitOne(t, path, func() { wantRights(t, path, 0o600) })
	wantRights(t, path, 0o600)
}

func TestTheLogHasTheRightsOfItsDatabase(t *testing.T) {
	for _, rights := range []fs.FileMode{0o600, 0o640, 0o666} {
		path := filepath.Join(t.TempDir(), "store.db")
		commitOne(t, path, func() {})
		if err := os.Chmod(path, rights); err != nil {
			t.Fatal(err)
		}
		if _, err := sqlitestore.Migrate(t.Context(), path, false); err != nil {
			t.Fatal(err)
		}
		commitOne(t, path, func() { wantRights(t, path, rights) })
	}
}

// commitOne commits to the store at path, calls while, and closes the store.
func commitOne(t *testing.T, path string, while func()) {
	t.Helper()
	b, err := sqlitestore.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	event := journal.Event{Stream: "app/x", Type: "app.x"}
	if _, err := b.Commit(t.Context(), []journal.Commit{{Space: "project:a", Events: []journal.Event{event}}}); err != nil {
		t.Fatal(err)
	}
	if files, err := filepath.Glob(path + "-*"); err != nil || len(files) != 2 {
		t.Fatalf("got %v, %v; want a log and its index", files, err)
	}
	while()
}

// wantRights checks the database at path and all files beside it.
func wantRights(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	if runtime.GOOS == "windows" {
		return // file modes mean nothing there
	}
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s: got rights %o, want %o", filepath.Base(file), got, want)
		}
	}
}

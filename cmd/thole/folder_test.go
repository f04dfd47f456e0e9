package main_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestANewStoreIsForItsOwnerAloneAndHiddenFromGit(t *testing.T) {
	for store, ignored := range map[string]bool{".thole/thole.db": true, "named/by/hand.db": false} {
		dir := t.TempDir()
		makeToken(t, dir, store)
		folder := filepath.Join(dir, filepath.Dir(store))
		wantRights(t, folder, 0o700)
		wantRights(t, filepath.Join(dir, store), 0o600)
		text, err := os.ReadFile(filepath.Join(folder, ".gitignore"))
		if got := err == nil && strings.HasSuffix(string(text), "\n*\n"); got != ignored {
			t.Errorf("%s: got .gitignore %q, %v; want all ignored: %t", store, text, err, ignored)
		}
	}
}

func TestAFolderThatIsThereStaysAsItIs(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, ".thole")
	if err := os.Mkdir(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	makeToken(t, dir, ".thole/thole.db")
	wantRights(t, folder, 0o750)
	if exists(folder, ".gitignore") {
		t.Error("got a .gitignore in a folder that somebody else made")
	}
}

// makeToken makes a token, and with it the store at path in dir.
func makeToken(t *testing.T, dir, path string) {
	t.Helper()
	got := command(t, dir, nil, "token", "create", "first", "--grant", "*=admin", "--store", "sqlite:"+path)
	if got.Code != 0 {
		t.Fatal(got)
	}
}

func wantRights(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != want && runtime.GOOS != "windows" {
		t.Errorf("%s: got rights %o, want %o", path, got, want)
	}
}

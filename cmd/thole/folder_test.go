package main_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/thole-dev/thole/internal/servertest"
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
	if servertest.Exists(folder, ".gitignore") {
		t.Error("got a .gitignore in a folder that somebody else made")
	}
}

func TestAFolderThatCannotBeMadeIsNamed(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // it has no /proc, in which nobody can make a folder
	}
	servertest.MustFail(t, t.TempDir(), nil, []string{"token", "create", "first", "--grant", "*=admin", "--store", "sqlite:/proc/none/at/all.db"}, "none could be made: mkdir /proc/none")
}

// makeToken makes a token, and with it the store at path in dir.
func makeToken(t *testing.T, dir, path string) {
	t.Helper()
	got := servertest.Command(t, dir, nil, "token", "create", "first", "--grant", "*=admin", "--store", "sqlite:"+path)
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

// A store that everyone may read or change is opened, and its owner is told how to
// change that.
func TestAStoreThatOthersMayReadOrChangeIsNamedWhenItIsOpened(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // there are no such rights
	}
	dir, err := os.MkdirTemp("/tmp", "thole-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	folder, db, files := filepath.Join(dir, "state"), filepath.Join(dir, "state", "thole.db"), filepath.Join(dir, "files")
	makeToken(t, dir, "state/thole.db")
	if got := servertest.Command(t, dir, nil, "token", "create", "one", "--grant", "*=read", "--store", "file:files"); got.Code != 0 {
		t.Fatal(got)
	}
	for _, test := range []struct {
		rights map[string]fs.FileMode
		store  string
		want   string // the command to run; "": none
	}{
		{map[string]fs.FileMode{dir: 0o755, folder: 0o755, db: 0o600}, "sqlite:state/thole.db", ""},
		{map[string]fs.FileMode{db: 0o660}, "sqlite:state/thole.db", ""}, // what a group may do is left to the owner
		{map[string]fs.FileMode{db: 0o644}, "sqlite:state/thole.db", "chmod o= " + db},
		{map[string]fs.FileMode{db: 0o602}, "sqlite:state/thole.db", "chmod o= " + db},
		{map[string]fs.FileMode{db: 0o600, folder: 0o777}, "sqlite:state/thole.db", "chmod o= " + folder},
		{map[string]fs.FileMode{db: 0o666}, "user:*=sqlite:state/thole.db", "chmod o= " + db + " " + folder},
		{map[string]fs.FileMode{folder: 0o700}, "sqlite:state/thole.db", ""}, // the folder is closed
		{map[string]fs.FileMode{files: 0o755}, "file:files", "chmod -R o= " + files},
		{map[string]fs.FileMode{dir: 0o700}, "file:files", ""},
	} {
		for path, rights := range test.rights {
			if err := os.Chmod(path, rights); err != nil {
				t.Fatal(err)
			}
		}
		stores := []string{"--store", test.store}
		if strings.Contains(test.store, "=") {
			stores = append(stores, "--store", "*=mem:")
		}
		got := servertest.Command(t, dir, nil, append([]string{"token", "create", "x", "--grant", "*=read"}, stores...)...)
		if has := strings.Contains(got.Err, "warning: "); got.Code != 0 || has != (test.want != "") || !strings.Contains(got.Err, test.want) || strings.Count(got.Err, "\n") > 1 {
			t.Errorf("%v: %s: got %d, %q, want one line with %q", test.rights, test.store, got.Code, got.Err, test.want)
		}
	}
}

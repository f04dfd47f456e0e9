package filestore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/internal/faultfs"
)

// slowNotes is a disk that calls a function before each note is written.
type slowNotes struct {
	*faultfs.FS
	before func()
}

func (d *slowNotes) OpenFile(name string, flag int) (filestore.File, error) {
	f, err := d.FS.OpenFile(name, flag)
	if err == nil && strings.HasSuffix(name, "/manifest") {
		f = slowNote{f, d}
	}
	return f, err
}

type slowNote struct {
	filestore.File
	disk *slowNotes
}

func (n slowNote) WriteAt(p []byte, offset int64) (int, error) {
	n.disk.before()
	return n.File.WriteAt(p, offset)
}

// A read through one store and then one through another must not go back in time.
func TestWhatOneStoreShowsTheOthersShowToo(t *testing.T) {
	plain := faultfs.New(1)
	disk := &slowNotes{plain, func() {}}
	ours := open(t, "/store", &filestore.Options{FS: disk, Lag: -1})
	theirs := open(t, "/store", &filestore.Options{FS: plain, Lag: -1})
	put(t, ours, "k", `"old"`)
	value(t, theirs, "k") // what it has read, and can now read without the lock

	shown := make(chan string, 1)
	disk.before = func() {
		disk.before = func() {}
		go func() { shown <- value(t, ours, "k") }()
		select {
		case ours := <-shown:
			if theirs := value(t, theirs, "k"); theirs != ours {
				t.Errorf("the other store shows %s, after this one showed %s", theirs, ours)
			}
			shown <- ours
		case <-time.After(50 * time.Millisecond): // it waits
		}
	}
	put(t, ours, "k", `"new"`)
	if got := <-shown; got != `"new"` && got != `"old"` {
		t.Errorf("while it was written: got %s", got)
	}
	if ours, theirs := value(t, ours, "k"), value(t, theirs, "k"); ours != `"new"` || theirs != `"new"` {
		t.Errorf("in the end the stores show %s and %s, want new", ours, theirs)
	}
}

func TestARevertThatAnotherProcessAdoptsReachesThisOne(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir, &filestore.Options{Lag: -1}), open(t, dir, &filestore.Options{Lag: -1})
	if err := tryCommit(a); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "user", "1", "journal", "0000000000000001.jsonl")
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := tryCommit(a); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, old, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*filestore.Store{b, a, b} {
		if err := tryCommit(s); err != nil {
			t.Fatalf("commit after a revert: %v", err)
		}
	}
	want := head(t, b)
	if got := head(t, a); got.Last != want.Last || len(got.Epochs) != 2 {
		t.Errorf("heads: got %v and %v, want the same of two epochs", got, want)
	}
}

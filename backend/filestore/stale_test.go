package filestore_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/internal/faultfs"
	"github.com/thole-dev/thole/journal"
)

// While one process writes a record's file, another one deletes the record and its
// file, but cannot write its note.
func TestNoFileIsPutBackToWhatAnotherProcessReplaced(t *testing.T) {
	plain := faultfs.New(1)
	ours, theirs := &picky{FS: plain}, &picky{FS: plain}
	a := open(t, "/store", &filestore.Options{FS: ours, Lag: -1})
	b := open(t, "/store", &filestore.Options{FS: theirs, Lag: -1})
	put(t, a, "k", `"old"`)

	meanwhile := false
	ours.write = func(name string) error {
		if meanwhile || !strings.Contains(name, "/tmp/") {
			return nil
		}
		meanwhile = true
		theirs.write = of("manifest", syscall.ENOSPC)
		if _, err := b.Commit(t.Context(), []journal.Commit{{Space: "user:1", Writes: []journal.Write{{Key: "k"}}}}); err != nil {
			t.Errorf("delete: %v", err)
		}
		if err := b.Flush(t.Context()); err != nil {
			t.Errorf("flush of the other: %v", err)
		}
		theirs.write = nil
		return nil
	}
	if err := a.Flush(t.Context()); err != nil || !meanwhile {
		t.Fatalf("flush: %v, the other was there meanwhile: %v", err, meanwhile)
	}

	last := put(t, b, "other", `1`).Last
	if err := b.Purge(t.Context(), "user:1", journal.Purge{Before: last}); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*filestore.Store{"a": a, "b": b} {
		if got := value(t, s, "k"); got != "" {
			t.Errorf("%s shows %s, which was deleted", name, got)
		}
		if h := head(t, s); len(h.Epochs) != 1 {
			t.Errorf("%s took a deleted record's file for a person's: epochs %v", name, h.Epochs)
		}
	}
}

// stuck is a disk that does not remove journals.
type stuck struct {
	*picky
	on bool
}

func (d *stuck) Remove(name string) error {
	if d.on && strings.Contains(name, "journal") {
		return syscall.EIO
	}
	return d.picky.Remove(name)
}

// On a disk that does not remove journals, the head of a journal stays whose first
// commit failed.
func TestAJournalWithoutACommitIsNoSpace(t *testing.T) {
	disk := &stuck{picky: &picky{FS: faultfs.New(1)}}
	s := open(t, "/store", &filestore.Options{FS: disk, Lag: -1})
	disk.on = true
	disk.write = of("journal", syscall.ENOSPC) // after the head
	if err := tryCommit(s); err == nil {
		t.Fatal("commit on a full disk: got no error")
	}
	disk.on, disk.write = false, nil
	again := open(t, "/store", &filestore.Options{FS: disk, Lag: -1})
	spaces, err := again.Spaces(t.Context(), journal.SpacesQuery{})
	if err != nil || len(spaces) > 0 {
		t.Errorf("spaces: got %v, %v, want none", spaces, err)
	}
	put(t, again, "k", `1`)
	if h := head(t, again); h.Last.Seq != 1 || len(h.Epochs) != 1 {
		t.Errorf("head after the first commit: got %v, want one epoch up to 1", h)
	}
}

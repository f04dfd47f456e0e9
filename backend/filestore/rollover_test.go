package filestore_test

import (
	"slices"
	"syscall"
	"testing"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/internal/faultfs"
	"github.com/thole-dev/thole/journal"
)

// twoOnPicky opens two stores over one directory, whose journals begin a new file with
// every commit. Only the first one's disk fails.
func twoOnPicky(t *testing.T) (ours, theirs *filestore.Store, disk *picky) {
	t.Helper()
	shared := faultfs.New(1)
	disk = &picky{FS: shared}
	ours = open(t, "/store", &filestore.Options{FS: disk, Lag: -1, SegmentBytes: 1})
	theirs = open(t, "/store", &filestore.Options{FS: shared, Lag: -1, SegmentBytes: 1})
	return ours, theirs, disk
}

// note commits an event with that text and returns its position.
func note(t *testing.T, s *filestore.Store, text string) journal.Position {
	t.Helper()
	results, err := s.Commit(t.Context(), []journal.Commit{{
		Space: "user:1", Events: []journal.Event{{Stream: "a", Type: "note.added", Data: []byte(`"` + text + `"`)}},
	}})
	if err != nil {
		t.Fatalf("commit %s: %v", text, err)
	}
	return results[0].Last
}

// texts returns what the journal says.
func texts(t *testing.T, s *filestore.Store) (all []string) {
	t.Helper()
	page, err := s.Read(t.Context(), "user:1", journal.ReadQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Events {
		all = append(all, string(e.Data))
	}
	return all
}

// A process began a new segment and could not note it. Another one that commits then
// must not overwrite that segment.
func TestASegmentWithoutANoteIsNotOverwritten(t *testing.T) {
	ours, theirs, disk := twoOnPicky(t)
	note(t, ours, "first")
	if got := texts(t, theirs); !slices.Equal(got, []string{`"first"`}) { // now it has the space in memory
		t.Fatalf("journal: got %s", got)
	}
	disk.write = of("manifest", syscall.ENOSPC)
	told := note(t, ours, "acknowledged")
	if got := note(t, theirs, "after it"); got == told {
		t.Errorf("position %v was given twice", got)
	}
	disk.write = nil
	note(t, ours, "last")
	for _, s := range []*filestore.Store{theirs, ours} {
		want := []string{`"first"`, `"acknowledged"`, `"after it"`, `"last"`}
		if got := texts(t, s); !slices.Equal(got, want) {
			t.Errorf("journal: got %s, want %s", got, want)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A process dies between a commit that creates a space and its note about it: the space
// is listed by others, even by those that do not know its name.
func TestASpaceIsListedWhoseMakerCouldNotTellOfIt(t *testing.T) {
	ours, theirs, disk := twoOnPicky(t)
	told := 0
	disk.write = func(name string) error {
		if err := of("manifest", syscall.ENOSPC)(name); err != nil && told > 0 {
			return err
		}
		if of("manifest", syscall.ENOSPC)(name) != nil {
			told++ // the space is announced
		}
		return nil
	}
	note(t, ours, "acknowledged")
	disk.write = nil
	got, err := theirs.Spaces(t.Context(), journal.SpacesQuery{})
	if err != nil || !slices.Equal(got, []string{"user:1"}) {
		t.Errorf("spaces: got %q, %v; want the one that was acknowledged", got, err)
	}
}

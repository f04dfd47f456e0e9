package sqlitestore_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/journal"
)

// All connections stay with the file that the link named when the store was opened.
func TestALinkMayChangeWhileAStoreIsOpen(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link.db")
	for _, name := range []string{"one.db", "two.db"} {
		open(t, filepath.Join(dir, name), nil).Close()
	}
	if err := os.Symlink("one.db", link); err != nil {
		t.Fatal(err)
	}
	s := open(t, link, nil)
	if err := errors.Join(os.Remove(link), os.Symlink("two.db", link)); err != nil {
		t.Fatal(err)
	}
	commit(t, s, "user:1", "a", `1`)
	if page, err := s.Read(t.Context(), "user:1", journal.ReadQuery{}); err != nil || len(page.Events) != 1 {
		t.Errorf("read back %d events, %v; want 1", len(page.Events), err)
	}
}

func TestAnAcknowledgedCommitThroughALinkSurvivesAPowerLoss(t *testing.T) {
	for _, made := range []bool{true, false} { // whether the store was made before, by its own name
		lost, empty := 0, 0
		for seed := range uint64(20) {
			p, err := newPlatter(t.TempDir(), map[string][]byte{"thole.db": nil}, rand.New(rand.NewPCG(seed, 1)))
			if err != nil {
				t.Fatal(err)
			}
			target, link := filepath.Join(p.dir, "thole.db"), filepath.Join(t.TempDir(), "thole.db")
			if err := os.Symlink(target, link); err != nil {
				t.Fatal(err)
			}
			start := func(path string, o *sqlitestore.Options) *sqlitestore.Store {
				s, err := sqlitestore.Open(t.Context(), path, o)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			disk := &sqlitestore.Options{VFS: newPlatterFS(p)}
			if made {
				start(target, disk).Close()
			}
			s := start(link, disk)
			commit(t, s, "user:1", "a", `1`)
			if !made { // everything is in the file
				s.Close()
				s = start(link, disk)
			}
			commit(t, s, "user:1", "a", `2`)
			left := filepath.Join(t.TempDir(), "thole.db")
			for name, data := range p.powerLoss() {
				write(t, filepath.Join(filepath.Dir(left), name), data)
			}
			s.Close()
			again := start(left, nil)
			page, err := again.Read(t.Context(), "user:1", journal.ReadQuery{})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Events) < 2 {
				lost++
			}
			if len(page.Events) == 0 {
				empty++
			}
			again.Close()
		}
		if lost > 0 {
			t.Errorf("made before: %v: acknowledged commits lost in %d of 20 power losses, all of them in %d", made, lost, empty)
		}
	}
}

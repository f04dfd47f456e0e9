package sqlitestore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/journal"
)

// everyCall makes every call that a Store has.
func everyCall(ctx context.Context, s *sqlitestore.Store) map[string]func() error {
	return map[string]func() error{
		"commit": func() error { return tryCommit(s) },
		"get":    func() error { _, err := s.Get(ctx, "user:2", "k"); return err },
		"list":   func() error { _, err := s.List(ctx, "user:2", journal.ListQuery{}); return err },
		"read":   func() error { _, err := s.Read(ctx, "user:1", journal.ReadQuery{}); return err },
		"heads":  func() error { _, err := s.Heads(ctx, "user:1"); return err },
		"spaces": func() error { _, err := s.Spaces(ctx, journal.SpacesQuery{}); return err },
		"purge":  func() error { return s.Purge(ctx, "user:1", journal.Purge{All: true}) },
		"load": func() error {
			at := journal.Position{Epoch: "0001aaaaaaaa", Seq: 1}
			return s.Load(ctx, "user:3", journal.Chunk{Done: true, Head: journal.Head{
				Space: "user:3", Oldest: at, Last: at, Epochs: []journal.Epoch{{Name: at.Epoch, First: 1, Last: 1}}}})
		},
		"check": func() error { return s.Check(ctx) },
		"close": s.Close,
	}
}

func TestAStoreWhoseDiskFailedRefusesEverythingAndLosesNothing(t *testing.T) {
	purge := func(s *sqlitestore.Store) error {
		return s.Purge(context.Background(), "user:2", journal.Purge{All: true})
	}
	for name, c := range map[string]struct {
		fail func(d *disk, err *error)
		err  error
		do   func(*sqlitestore.Store) error // meets the fault
	}{
		"a sync":                   {func(d *disk, err *error) { d.sync.Store(err) }, syscall.EIO, tryCommit},
		"a sync for lack of space": {func(d *disk, err *error) { d.sync.Store(err) }, syscall.ENOSPC, tryCommit},
		"a write":                  {func(d *disk, err *error) { d.write.Store(err) }, syscall.EIO, tryCommit},
		"a sync of a purge":        {func(d *disk, err *error) { d.sync.Store(err) }, syscall.EIO, purge},
		"a sync of closing":        {func(d *disk, err *error) { d.sync.Store(err) }, syscall.EIO, (*sqlitestore.Store).Close},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk()
			path := filepath.Join(t.TempDir(), "thole.db")
			s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{VFS: d})
			if err != nil {
				t.Fatal(err)
			}
			if err := tryCommit(s); err != nil {
				t.Fatal(err)
			}
			c.fail(d, &c.err)
			first := c.do(s)
			why := s.Stopped()
			if why == nil || !errors.Is(first, why) || !errors.Is(first, journal.ErrUnavailable) || !errors.Is(first, c.err) {
				t.Fatalf("the call that failed: got %v, want the reason why the store stopped: %v", first, why)
			}
			for _, part := range []string{path, "its disk failed", "nothing that was acknowledged is lost", "start the process again"} {
				if !strings.Contains(why.Error(), part) {
					t.Errorf("got %q, want that it says %q", why, part)
				}
			}
			d.sync.Store(nil) // the disk works again
			d.write.Store(nil)
			for name, call := range everyCall(t.Context(), s) {
				if err := call(); !errors.Is(err, why) && !errors.Is(err, journal.ErrClosed) {
					t.Errorf("%s: got %v, want %v", name, err, why)
				}
			}
			if log, err := os.Stat(path + "-wal"); err != nil || log.Size() == 0 {
				t.Errorf("the log, on which the file may depend, is gone: %v", err)
			}
			again := open(t, path, nil)
			heads, err := again.Heads(t.Context(), "user:1")
			// As with any error, the outcome of the failed call is unknown.
			if last := heads[0].Last.Seq; err != nil || last != 1 && last != 2 {
				t.Fatalf("head: got %d, %v; want the commit that was acknowledged", last, err)
			}
			if err := tryCommit(again); err != nil {
				t.Fatal(err)
			}
			wantEvents(t, again, path, int(heads[0].Last.Seq)+1)
		})
	}
}

// One process stops; the other one goes on, or also stops if the system reports the
// same failure to it.
func TestAnotherProcessGoesOnWhenOneStops(t *testing.T) {
	d := newDisk()
	path := filepath.Join(t.TempDir(), "thole.db")
	s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{VFS: d})
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, path, nil)
	if err := tryCommit(s); err != nil {
		t.Fatal(err)
	}
	var fault error = syscall.EIO
	d.sync.Store(&fault)
	if err := tryCommit(s); err == nil {
		t.Fatal("commit whose sync fails: got success")
	}
	for range 3 {
		if err := tryCommit(other); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	wantEvents(t, other, path, 4)
}

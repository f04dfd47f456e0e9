package filestore_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/internal/faultfs"
	"github.com/thole-dev/thole/journal"
)

// everyCall makes every call that a Store has.
func everyCall(ctx context.Context, s *filestore.Store) map[string]func() error {
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
		"flush": func() error { return s.Flush(ctx) },
		"check": func() error { return s.Check(ctx) },
		"close": s.Close,
	}
}

func TestAStoreWhoseDiskFailedRefusesEverythingAndLosesNothing(t *testing.T) {
	purge := func(s *filestore.Store) error {
		return s.Purge(context.Background(), "user:2", journal.Purge{All: true})
	}
	flush := func(s *filestore.Store) error { return s.Flush(context.Background()) }
	for name, c := range map[string]struct {
		fail func(*picky)
		do   func(*filestore.Store) error // meets the fault
	}{
		"a sync of a journal":           {func(d *picky) { d.sync = of("/journal/", syscall.EIO) }, tryCommit},
		"a sync for lack of space":      {func(d *picky) { d.sync = of("/journal/", syscall.ENOSPC) }, tryCommit},
		"a write to a journal":          {func(d *picky) { d.write = of("/journal/", syscall.EIO) }, tryCommit},
		"a sync of a record":            {func(d *picky) { d.sync = of("/tmp/", syscall.EIO) }, flush},
		"a sync of a folder":            {func(d *picky) { d.sync = of("/records", syscall.EIO) }, flush},
		"a record that is put in place": {func(d *picky) { d.rename = of("/records/", syscall.EIO) }, flush},
		"a removal":                     {func(d *picky) { d.remove = of("/trash/", syscall.EIO) }, purge},
	} {
		t.Run(name, func(t *testing.T) {
			s, disk := onPicky(t)
			other := open(t, "/store", &filestore.Options{FS: disk.FS, Lag: -1})
			if err := tryCommit(s); err != nil {
				t.Fatal(err)
			}
			c.fail(disk)
			first := c.do(s)
			why := s.Stopped()
			if why == nil || !errors.Is(first, why) || !errors.Is(first, journal.ErrUnavailable) {
				t.Fatalf("the call that failed: got %v, want the reason why the store stopped: %v", first, why)
			}
			for _, part := range []string{"file store /store stopped", "its disk failed", "nothing that was acknowledged is lost", "start the process again"} {
				if !strings.Contains(why.Error(), part) {
					t.Errorf("got %q, want that it says %q", why, part)
				}
			}
			*disk = picky{FS: disk.FS} // the disk works again
			for name, call := range everyCall(t.Context(), s) {
				if err := call(); !errors.Is(err, why) && !errors.Is(err, journal.ErrClosed) {
					t.Errorf("%s: got %v, want %v", name, err, why)
				}
			}
			if err := s.Close(); !errors.Is(err, why) {
				t.Errorf("close: got %v, want %v", err, why)
			}
			again := open(t, "/store", &filestore.Options{FS: disk.FS, Lag: -1})
			least := uint64(1)
			for name, s := range map[string]*filestore.Store{"another process": other, "opened again": again} {
				before := head(t, s).Last.Seq
				if before != least && before != least+1 { // the outcome of the failed commit is unknown
					t.Errorf("%s: head: got %d, want the %d commits that were acknowledged", name, before, least)
				}
				least++
				if err := tryCommit(s); err != nil {
					t.Errorf("%s: commit: %v", name, err)
				}
				if got := head(t, s).Last.Seq; got != before+1 {
					t.Errorf("%s: head: got %d, want %d", name, got, before+1)
				}
				if err := s.Check(t.Context()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// After a failed sync the page cache may show data that the disk does not have. A
// process that builds on such data must first write it again.
func TestWhatAFailedSyncLeftIsNotTakenForDurable(t *testing.T) {
	for seed := range uint64(30) {
		disk := faultfs.New(seed)
		failing := &picky{FS: disk}
		s := open(t, "/store", &filestore.Options{FS: failing, Lag: -1})
		if err := tryCommit(s); err != nil {
			t.Fatal(err)
		}
		disk.Fail(faultfs.Faults{faultfs.SyncError: 1})
		if err := tryCommit(s); err == nil {
			t.Fatal("commit whose sync fails: got success")
		}
		disk.Fail(nil)
		s.Close()
		s, err := filestore.Open(t.Context(), "/store", &filestore.Options{FS: disk, Lag: -1, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		if err := tryCommit(s); err != nil {
			t.Fatal(err)
		}
		want := head(t, s).Last
		after := disk.Crash()
		s.Close() // there is no disk any more
		s = open(t, "/store", &filestore.Options{FS: after, Lag: -1})
		if got := head(t, s); got.Last != want || len(got.Epochs) != 1 {
			t.Errorf("seed %d: head: got %+v, want %v", seed, got, want)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		s.Close()
	}
}

package sqlitestore_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/journal"
)

// disk is the operating system's file system with faults to switch on.
type disk struct {
	vfs.VFSFilename
	write    atomic.Pointer[error] // the error of a write that adds data
	sync     atomic.Pointer[error]
	readOnly bool
}

func newDisk() *disk { return &disk{VFSFilename: vfs.Find("os").(vfs.VFSFilename)} }

func (d *disk) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if d.readOnly && flags&vfs.OPEN_READWRITE != 0 {
		flags = flags&^(vfs.OPEN_READWRITE|vfs.OPEN_CREATE) | vfs.OPEN_READONLY
	}
	f, flags, err := d.VFSFilename.OpenFilename(name, flags)
	if err != nil {
		return nil, flags, err
	}
	return &diskFile{File: f, disk: d}, flags, nil
}

type diskFile struct {
	vfs.File
	disk *disk
}

func (f *diskFile) SharedMemory() vfs.SharedMemory {
	return f.File.(vfs.FileSharedMemory).SharedMemory()
}

func (f *diskFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.disk.write.Load(); err != nil {
		return 0, *err
	}
	return f.File.WriteAt(p, off)
}

func (f *diskFile) Sync(flags vfs.SyncFlag) error {
	if err := f.disk.sync.Load(); err != nil {
		return *err
	}
	return f.File.Sync(flags)
}

func tryCommit(s *sqlitestore.Store) error {
	_, err := s.Commit(context.Background(), []journal.Commit{
		{Space: "user:1", Events: []journal.Event{{Stream: "a", Type: "note.added", Data: []byte(`"` + strings.Repeat("x", 5000) + `"`)}}},
		{Space: "user:2", Writes: []journal.Write{{Key: "k", Value: []byte(`1`)}}},
	})
	return err
}

// wantEvents checks the store's content, also after it was reopened.
func wantEvents(t *testing.T, s *sqlitestore.Store, path string, want int) {
	t.Helper()
	check := func(s *sqlitestore.Store) {
		t.Helper()
		page, err := s.Read(t.Context(), "user:1", journal.ReadQuery{})
		if err != nil || len(page.Events) != want {
			t.Fatalf("events: got %d, %v; want %d", len(page.Events), err, want)
		}
		for i, e := range page.Events {
			if e.Position.Seq != uint64(i+1) {
				t.Fatalf("seq: got %d, want %d", e.Position.Seq, i+1)
			}
		}
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check(s)
	s.Close()
	check(open(t, path, nil))
}

func TestAFullDiskFailsCommitsUntilThereIsSpace(t *testing.T) {
	for name, fault := range map[string]struct {
		err error
		set func(d *disk, err *error)
	}{
		"write": {sqlite3.FULL, func(d *disk, err *error) { d.write.Store(err) }},
		"errno": {syscall.ENOSPC, func(d *disk, err *error) { d.write.Store(err) }},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk()
			path := filepath.Join(t.TempDir(), "thole.db")
			s := open(t, path, &sqlitestore.Options{VFS: d})
			if err := tryCommit(s); err != nil {
				t.Fatal(err)
			}
			fault.set(d, &fault.err)
			for range 3 {
				if err := tryCommit(s); !errors.Is(err, journal.ErrFull) || !strings.Contains(err.Error(), "disk is full") {
					t.Fatalf("commit on a full disk: got %v, want an error that says so", err)
				}
			}
			heads, err := s.Heads(t.Context(), "user:1")
			if err != nil || heads[0].Last.Seq != 1 {
				t.Fatalf("head: got %v, %v; want 1 commit", heads, err)
			}
			fault.set(d, nil)
			if err := tryCommit(s); err != nil {
				t.Fatalf("commit when there is space again: %v", err)
			}
			wantEvents(t, s, path, 2)
		})
	}
}

func TestAReadOnlyFileIsExplained(t *testing.T) {
	path := made(t)
	d := newDisk()
	d.readOnly = true
	_, err := sqlitestore.Open(context.Background(), path, &sqlitestore.Options{VFS: d})
	if err == nil || !strings.Contains(err.Error(), "read-only") || !strings.Contains(err.Error(), path) {
		t.Fatalf("open: got %v, want an error that says the file is read-only", err)
	}
}

func TestACancelledReadEndsWithTheCause(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "thole.db"), &sqlitestore.Options{Readers: 1})
	fill(t, s, 100, make([]journal.Position, 100))
	why := errors.New("the client went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() {
		for {
			if _, err := s.Read(ctx, "project:bench", journal.ReadQuery{Actor: "nobody"}); err != nil {
				done <- err
				return
			}
		}
	}()
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("read: got %v, want the cause", err)
	}
	// The connection can still be used.
	if _, err := s.Read(t.Context(), "project:bench", journal.ReadQuery{}); err != nil {
		t.Error(err)
	}
}

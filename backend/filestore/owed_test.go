package filestore_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/internal/faultfs"
	"github.com/thole-dev/thole/journal"
)

// holding returns the files below dir that contain text.
func holding(t *testing.T, disk *faultfs.FS, dir, text string) (found []string) {
	t.Helper()
	entries, err := disk.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			found = append(found, holding(t, disk, path, text)...)
			continue
		}
		f, err := disk.OpenFile(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, info.Size())
		f.ReadAt(data, 0)
		f.Close()
		if strings.Contains(string(data), text) {
			found = append(found, path)
		}
	}
	return found
}

// The system does not remove the files of a space. The purge reports that, a repeat
// finishes it, and only then is the space not found.
func TestAPurgeThatCouldNotRemoveTheFilesIsFinishedByTheNext(t *testing.T) {
	const canary = "canary-7f3a9c"
	for name, again := range map[string]func(t *testing.T, s *filestore.Store, disk filestore.FS){
		"repeated": func(t *testing.T, s *filestore.Store, _ filestore.FS) {
			if err := s.Purge(t.Context(), "user:1", journal.Purge{All: true}); err != nil {
				t.Errorf("repeated: got %v, want that it is done", err)
			}
		},
		"of another space": func(t *testing.T, s *filestore.Store, _ filestore.FS) {
			if err := s.Purge(t.Context(), "user:2", journal.Purge{All: true}); err != nil {
				t.Errorf("of another space: %v", err)
			}
		},
		"of what never was": func(t *testing.T, s *filestore.Store, _ filestore.FS) {
			if err := s.Purge(t.Context(), "user:3", journal.Purge{All: true}); !errors.Is(err, journal.ErrNotFound) {
				t.Errorf("of a space that never existed: got %v, want ErrNotFound", err)
			}
		},
		"by Open": func(t *testing.T, _ *filestore.Store, disk filestore.FS) {
			open(t, "/store", &filestore.Options{FS: disk, Lag: -1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := faultfs.New(1)
			held := &picky{FS: disk}
			s := open(t, "/store", &filestore.Options{FS: held, Lag: -1})
			put(t, s, "k", `"`+canary+`"`)
			if err := tryCommit(s); err != nil {
				t.Fatal(err)
			}
			held.remove = of("/trash/", fs.ErrPermission) // as on Windows while another program reads the file
			for range 2 {
				if err := s.Purge(t.Context(), "user:1", journal.Purge{All: true}); err == nil || errors.Is(err, journal.ErrNotFound) {
					t.Fatalf("while nothing can be deleted: got %v, want an error that is not ErrNotFound", err)
				}
			}
			held.remove = nil
			again(t, s, held)
			if found := holding(t, disk, "/store", canary); len(found) > 0 {
				t.Errorf("purged data is still in %v", found)
			}
			if err := s.Purge(t.Context(), "user:1", journal.Purge{All: true}); !errors.Is(err, journal.ErrNotFound) {
				t.Errorf("when all is done: got %v, want ErrNotFound", err)
			}
			if report := s.Report(); len(report) > 0 {
				t.Errorf("it reports something that did not happen: %q", report)
			}
		})
	}
}

// The files of a purge that could not make its first step durable are removed by the
// next process only when that step can no longer be undone.
func TestAPurgeThatPowerLossUndoesLeavesAllOfTheSpace(t *testing.T) {
	for seed := range uint64(200) {
		disk := faultfs.New(seed)
		failing := &picky{FS: disk}
		s := open(t, "/store", &filestore.Options{FS: failing, Lag: -1, SegmentBytes: 1})
		for range 5 {
			put(t, s, "k", `1`)
		}
		flush(t, s)
		failing.sync = of("/store/user", syscall.EIO)
		if err := s.Purge(t.Context(), "user:1", journal.Purge{All: true}); err == nil {
			t.Fatal("purge while the disk fails to sync: got success")
		}
		next := open(t, "/store", &filestore.Options{FS: disk, Lag: -1})
		disk = disk.Crash()
		s.Close()    // it had stopped
		next.Close() // without a disk
		again := open(t, "/store", &filestore.Options{FS: disk, Lag: -1})
		if got := head(t, again); got.Last.Seq != 0 && (got.Last.Seq != 5 || len(got.Epochs) != 1) {
			t.Errorf("seed %d: head: got %+v, want all of the space or nothing", seed, got)
		}
		if err := again.Check(t.Context()); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

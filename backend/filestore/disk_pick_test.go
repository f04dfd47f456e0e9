package filestore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/internal/faultfs"
	"github.com/thole-dev/thole/journal"
)

// picky is a file system that fails the operations that a test picks.
type picky struct {
	filestore.FS
	open, write, truncate, sync, rename, remove func(name string) error // nil: never
}

func pick(f func(string) error, name string) error {
	if f == nil {
		return nil
	}
	return f(name)
}

func (p *picky) OpenFile(name string, flag int) (filestore.File, error) {
	if err := pick(p.open, name); err != nil {
		return nil, err
	}
	f, err := p.FS.OpenFile(name, flag)
	if err != nil {
		return nil, err
	}
	return &pickyFile{f, p, name}, nil
}

func (p *picky) Rename(from, to string) error {
	if err := pick(p.rename, to); err != nil {
		return err
	}
	return p.FS.Rename(from, to)
}

func (p *picky) Remove(name string) error {
	if err := pick(p.remove, name); err != nil {
		return err
	}
	return p.FS.Remove(name)
}

func (p *picky) SyncDir(name string) error {
	if err := pick(p.sync, name); err != nil {
		return err
	}
	return p.FS.SyncDir(name)
}

type pickyFile struct {
	filestore.File
	fs   *picky
	name string
}

func (f *pickyFile) WriteAt(b []byte, at int64) (int, error) {
	if err := pick(f.fs.write, f.name); err != nil {
		n, _ := f.File.WriteAt(b[:len(b)/2], at)
		return n, err
	}
	return f.File.WriteAt(b, at)
}

func (f *pickyFile) Truncate(size int64) error {
	if err := pick(f.fs.truncate, f.name); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *pickyFile) Sync() error {
	if err := pick(f.fs.sync, f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

// of fails operations on names that contain part, with err.
func of(part string, err error) func(string) error {
	return func(name string) error {
		if strings.Contains(name, part) {
			return err
		}
		return nil
	}
}

func onPicky(t *testing.T) (*filestore.Store, *picky) {
	t.Helper()
	disk := &picky{FS: faultfs.New(1)}
	return open(t, "/store", &filestore.Options{FS: disk, Lag: -1}), disk
}

func TestACommitStandsThoughItsNoteFindsNoSpace(t *testing.T) {
	a, disk := onPicky(t)
	b := open(t, "/store", &filestore.Options{FS: disk, Lag: -1})
	if err := tryCommit(a); err != nil {
		t.Fatal(err)
	}
	disk.write = of("manifest", syscall.ENOSPC)
	for range 2 {
		if err := tryCommit(a); err != nil {
			t.Fatalf("a commit that is on the disk, but not its note: %v; a repeat would apply it twice", err)
		}
	}
	if got := head(t, a).Last.Seq; got != 3 {
		t.Errorf("head: got %d, want 3", got)
	}
	disk.write = nil
	if err := b.Patrol(t.Context()); err != nil { // notices what no note said
		t.Fatal(err)
	}
	if got := head(t, b).Last.Seq; got != 3 {
		t.Errorf("head of the other store after its round: got %d, want 3", got)
	}
	if err := tryCommit(b); err != nil {
		t.Fatal(err)
	}
	if err := tryCommit(a); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*filestore.Store{"a": a, "b": b} {
		if got := head(t, s).Last.Seq; got != 5 {
			t.Errorf("head of %s: got %d, want 5", name, got)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAJournalThatCannotBeOpenedFailsOnlyItsOwnCommits(t *testing.T) {
	bad, good := "user:bad", "user:good"
	commit := func(space string) journal.Commit {
		return journal.Commit{Space: space, Events: []journal.Event{{Stream: "s", Type: "a.b"}}}
	}
	for name, c := range map[string]struct {
		fail func(*picky)
		is   error
		says string
	}{
		"too many open files": {func(d *picky) { d.open = of("/bad/journal/", syscall.EMFILE) }, journal.ErrUnavailable, "ulimit -n"},
		"no right":            {func(d *picky) { d.open = of("/bad/journal/", syscall.EACCES) }, fs.ErrPermission, "the right to write"},
		"too many open files, for its directory": {func(d *picky) {
			d.sync = of("/bad", &fs.PathError{Op: "open", Path: "bad", Err: syscall.EMFILE})
		}, journal.ErrUnavailable, "ulimit -n"},
	} {
		for _, fresh := range []bool{true, false} {
			if !fresh && strings.HasSuffix(name, "directory") {
				continue // an existing journal's is not opened
			}
			t.Run(fmt.Sprintf("%s/new space %v", name, fresh), func(t *testing.T) {
				s, disk := onPicky(t)
				want := map[string]uint64{}
				try := func(spaces ...string) []journal.Result {
					t.Helper()
					var batch []journal.Commit
					for _, space := range spaces {
						batch = append(batch, commit(space))
					}
					results, err := s.Commit(t.Context(), batch)
					if err != nil {
						t.Fatal(err)
					}
					for i, r := range results {
						if r.Err == nil {
							want[spaces[i]]++
						}
					}
					return results
				}
				if !fresh {
					try(bad, good)
				}
				c.fail(disk)
				results := try(good, bad, bad, good)
				for i, r := range results {
					if isBad := i == 1 || i == 2; (r.Err != nil) != isBad {
						t.Fatalf("commit %d: got %v", i, r.Err)
					}
				}
				if err := results[1].Err; !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want %v that says %q", err, c.is, c.says)
				}
				if err := s.Stopped(); err != nil {
					t.Fatalf("the store stopped: %v", err)
				}
				*disk = picky{FS: disk.FS}
				try(bad, good)
				s.Close()
				s = open(t, "/store", &filestore.Options{FS: disk.FS, Lag: -1})
				for space, n := range want {
					heads, err := s.Heads(t.Context(), space)
					if err != nil || heads[0].Last.Seq != n {
						t.Errorf("%s: got %v, %v; want %d commits", space, heads[0].Last, err, n)
					}
				}
				if err := s.Check(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestAFullDiskThatTakesNothingBackStopsTheStore(t *testing.T) {
	s, disk := onPicky(t)
	if err := tryCommit(s); err != nil {
		t.Fatal(err)
	}
	disk.write, disk.truncate = of("journal", syscall.ENOSPC), of("journal", syscall.EIO)
	if err := tryCommit(s); err == nil || errors.Is(err, journal.ErrFull) {
		t.Errorf("commit that cannot be taken back: got %v, want an error that is not ErrFull", err)
	}
	disk.write, disk.truncate = nil, nil
	if err := tryCommit(s); err == nil || !strings.Contains(err.Error(), "start the process again") {
		t.Errorf("commit after it: got %v, want an error that says what to do", err)
	}
}

func TestFilesThatAnotherRemovesOnTheirWayAreWrittenAgain(t *testing.T) {
	s, disk := onPicky(t)
	if err := tryCommit(s); err != nil {
		t.Fatal(err)
	}
	opened := false
	disk.rename = func(to string) error {
		if strings.Contains(to, "records") && !opened {
			opened = true
			return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrNotExist}
		}
		return nil
	}
	if err := s.Flush(t.Context()); err != nil || !opened {
		t.Errorf("flush: %v, met the removal: %v", err, opened)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestASpaceThatCannotBeWrittenHoldsUpNoOther(t *testing.T) {
	s, disk := onPicky(t)
	for _, space := range []string{"user:a", "user:b", "user:c"} {
		if _, err := s.Commit(t.Context(), []journal.Commit{{Space: space, Writes: []journal.Write{{Key: "k", Value: []byte(`1`)}}}}); err != nil {
			t.Fatal(err)
		}
	}
	disk.rename = of("/user/b/", fs.ErrPermission)
	if err := s.Flush(t.Context()); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("flush: got %v, want that of the space that cannot be written", err)
	}
	for _, id := range []string{"a", "c"} {
		if _, err := disk.Stat("/store/user/" + id + "/records/k.json"); err != nil {
			t.Errorf("the record of space %s: %v", id, err)
		}
	}
	disk.rename = nil
}

func TestFilesFollowWhenThereIsSpaceAgain(t *testing.T) {
	disk := &picky{FS: faultfs.New(1)}
	var tries atomic.Int64
	disk.write = func(name string) error {
		if strings.Contains(name, "/tmp/") && tries.Add(1) == 1 {
			return syscall.ENOSPC
		}
		return nil
	}
	followed := make(chan struct{})
	disk.rename = func(to string) error {
		if strings.Contains(to, "/records/") {
			close(followed)
		}
		return nil
	}
	s := open(t, "/store", &filestore.Options{FS: disk, Lag: time.Microsecond})
	put(t, s, "k", `1`)
	<-followed // without another commit
}

func TestTheFileFollowsARecordThatIsWrittenMeanwhile(t *testing.T) {
	s, disk := onPicky(t)
	put(t, s, "k", `"old"`)
	meanwhile := false
	disk.write = func(name string) error {
		if strings.Contains(name, "/tmp/") && !meanwhile {
			meanwhile = true
			put(t, s, "k", `"new"`)
		}
		return nil
	}
	if err := s.Flush(t.Context()); err != nil || !meanwhile {
		t.Fatalf("flush: %v, the record was written meanwhile: %v", err, meanwhile)
	}
	if found := holding(t, disk.FS.(*faultfs.FS), "/store/user", `"new"`); len(found) != 2 {
		t.Errorf("the new value is in %v, want the journal and the file", found)
	}
}

package filestore

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/thole-dev/thole/internal/failstop"
	"github.com/thole-dev/thole/journal"
)

// FS is the file system below a Store. Names are as in package os. Its methods
// report a missing file as fs.ErrNotExist, an existing one as fs.ErrExist and a full
// disk as ENOSPC or EDQUOT.
type FS interface {
	OpenFile(name string, flag int) (File, error) // flag as os.OpenFile's
	Stat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error) // in order of their names
	Mkdir(name string) error
	Rename(from, to string) error // replaces a file, never a directory
	Remove(name string) error     // a file or an empty directory
	SyncDir(name string) error    // makes the directory's entries durable; an *fs.PathError of "open" if it cannot open it
}

// File is an open file. It is an alias, so that a file system need not import
// this package.
type File = interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Stat() (fs.FileInfo, error)
	TryLock() (bool, error) // excludes every other File, also in other processes
	Unlock() error
	Close() error
}

// osFS is the operating system's file system. New files and directories get the
// permissions of the store's root, as far as the umask allows: 0600 and 0700 below a
// root that Thole made, 0644 and 0755 in a work tree that everyone may read.
type osFS struct{ rights fs.FileMode }

// newOSFS returns the file system below a root; nil if the root does not exist yet.
func newOSFS(root fs.FileInfo) osFS {
	if root == nil {
		return osFS{0o700}
	}
	return osFS{root.Mode().Perm() | 0o700} // Thole itself must be able to write
}

func (o osFS) OpenFile(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, o.rights&0o666)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Stat(name string) (fs.FileInfo, error)      { return os.Stat(name) }
func (osFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
func (o osFS) Mkdir(name string) error                  { return os.Mkdir(name, o.rights) }
func (osFS) Rename(from, to string) error               { return os.Rename(from, to) }
func (osFS) Remove(name string) error                   { return os.Remove(name) }

// osFile is a file of the operating system. The files fs_*.go say how it locks and
// syncs on each system.
type osFile struct{ *os.File }

// disk adds to an FS what the Store needs beyond it.
type disk struct{ FS }

// readFile returns the content of a file.
func (d disk) readFile(name string) ([]byte, error) {
	f, err := d.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, info.Size())
	n, err := f.ReadAt(data, 0)
	if err == io.EOF {
		err = nil // the file was truncated since Stat
	}
	return data[:n], err
}

// writeFile writes a file with that content, replacing an existing one. With sync
// the content is on stable storage on return; the name may not be.
func (d disk) writeFile(name string, data []byte, sync bool) (stamp, error) {
	f, err := d.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return stamp{}, err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil && sync {
		err = f.Sync()
	}
	var info fs.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return stamp{}, err
	}
	return stampOf(info), nil
}

// exists reports whether a file or directory of that name exists.
func (d disk) exists(name string) (bool, error) {
	_, err := d.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// mkdirAll makes a directory below root and its missing parents.
func (d disk) mkdirAll(root, dir string) error {
	if dir == root {
		return nil
	}
	err := d.Mkdir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.mkdirAll(root, filepath.Dir(dir)); err != nil {
			return err
		}
		err = d.Mkdir(dir)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// upTo returns a directory and its parents up to root. All of them must be synced
// to make a file in the first one durable: whoever created a directory may not have
// synced its parent.
func upTo(root, dir string) []string {
	dirs := []string{dir}
	for dir != root {
		dir = filepath.Dir(dir)
		dirs = append(dirs, dir)
	}
	return dirs
}

// removeAll removes a file, or a directory with everything in it. A missing one is
// not an error.
func (d disk) removeAll(name string) error {
	entries, err := d.ReadDir(name)
	if err == nil {
		for _, e := range entries {
			if err := d.removeAll(filepath.Join(name, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeEmpty removes a directory and its parents below root as long as they
// are empty. It returns the first one that it did not remove.
func (d disk) removeEmpty(root, dir string) string {
	for dir != root && d.Remove(dir) == nil {
		dir = filepath.Dir(dir)
	}
	return dir
}

// syncDirs makes the entries of directories durable. It skips missing directories.
func (d disk) syncDirs(dirs []string) error {
	slices.Sort(dirs)
	return parallel(slices.Compact(dirs), func(dir string) error {
		if err := d.SyncDir(dir); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// parallel calls do for each item, up to 8 at a time. It returns the first error in
// the order of the items.
func parallel[T any](items []T, do func(T) error) error {
	if len(items) == 1 {
		return do(items[0])
	}
	errs := make([]error, len(items))
	slots := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for i, item := range items {
		slots <- struct{}{}
		wg.Go(func() {
			errs[i] = do(item)
			<-slots
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// stamp is the size and modification time of a file; a different stamp means that
// the file was changed. The zero stamp stands for a missing file.
type stamp struct{ size, modified int64 }

// unknown is the stamp of a file that was not examined.
var unknown = stamp{size: -1}

func stampOf(info fs.FileInfo) stamp { return stamp{info.Size(), info.ModTime().UnixNano()} }

// stampAt returns the stamp of the file of that name.
func (d disk) stampAt(name string) (stamp, error) {
	info, err := d.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return stamp{}, nil
	}
	if err != nil {
		return stamp{}, err
	}
	return stampOf(info), nil
}

// explain adds to an error of the file system what a person can do about it.
func (s *Store) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case s.stop.Err() != nil:
		return s.stop.Err()
	case failstop.Full(err):
		return fmt.Errorf("%w: file store %s cannot grow: the disk is full; free some space and try again, nothing was lost: %w", journal.ErrFull, s.dir, err)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: file store %s: too many files and connections are open: raise the limit (ulimit -n) or close some, then try again: %w", journal.ErrUnavailable, s.dir, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("file store %s: give this user the right to write the directory and all in it: %w", s.dir, err)
	}
	return err
}

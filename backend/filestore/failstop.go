package filestore

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/thole-dev/thole/internal/failstop"
)

// failStop is the file system of a Store. It stops the Store when the disk fails: when
// a write fails for any reason but lack of space, when a sync fails, or when creating,
// renaming or removing a file fails with an I/O error. After that it changes nothing
// more. A failed read does not stop the Store, since it can be tried again.
type failStop struct {
	FS
	stop *failstop.Stop
}

// wrote returns the error of a write and stops the store unless the disk is full.
func (f failStop) wrote(err error) error {
	if err == nil || failstop.Full(err) {
		return err
	}
	return f.stop.Because(err)
}

// synced returns the error of a sync and stops the store unless the synced directory
// does not exist.
func (f failStop) synced(err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.stop.Because(err)
}

// named returns the error of creating, renaming or removing a file and stops the store
// on an I/O error. Most other errors come from people, who removed a permission or
// put a file where a directory has to be.
func (f failStop) named(err error) error {
	if err == nil || !errors.Is(err, syscall.EIO) {
		return err
	}
	return f.stop.Because(err)
}

func (f failStop) OpenFile(name string, flag int) (File, error) {
	if err := f.stop.Err(); err != nil {
		return nil, err
	}
	file, err := f.FS.OpenFile(name, flag)
	if flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		err = f.named(err)
	}
	if err != nil {
		return nil, err
	}
	return failStopFile{file, f}, nil
}

func (f failStop) Mkdir(name string) error {
	if err := f.stop.Err(); err != nil {
		return err
	}
	return f.named(f.FS.Mkdir(name))
}

func (f failStop) Rename(from, to string) error {
	if err := f.stop.Err(); err != nil {
		return err
	}
	return f.named(f.FS.Rename(from, to))
}

func (f failStop) Remove(name string) error {
	if err := f.stop.Err(); err != nil {
		return err
	}
	return f.named(f.FS.Remove(name))
}

func (f failStop) SyncDir(name string) error {
	if err := f.stop.Err(); err != nil {
		return err
	}
	err := f.FS.SyncDir(name)
	if path := (*fs.PathError)(nil); errors.As(err, &path) && path.Op == "open" {
		return f.named(err) // nothing was synced, so no sync has failed
	}
	return f.synced(err)
}

// failStopFile is an open file of a failStop.
type failStopFile struct {
	File
	disk failStop
}

func (f failStopFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.disk.stop.Err(); err != nil {
		return 0, err
	}
	n, err := f.File.WriteAt(p, off)
	return n, f.disk.wrote(err)
}

func (f failStopFile) Truncate(size int64) error {
	if err := f.disk.stop.Err(); err != nil {
		return err
	}
	return f.disk.wrote(f.File.Truncate(size))
}

func (f failStopFile) Sync() error {
	if err := f.disk.stop.Err(); err != nil {
		return err
	}
	return f.disk.synced(f.File.Sync())
}

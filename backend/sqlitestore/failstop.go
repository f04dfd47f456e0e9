package sqlitestore

import (
	"errors"
	"syscall"

	"github.com/ncruces/go-sqlite3/vfs"
	"github.com/thole-dev/thole/internal/failstop"
)

// failStop is a VFS that stops its Store when the disk fails: when a write fails for
// any reason but lack of space, when a sync fails, or when deleting a file fails with
// an I/O error. After that it changes nothing more, so that SQLite neither copies nor
// removes a log that the file may depend on. A failed read does not stop the Store:
// SQLite aborts the transaction.
type failStop struct {
	vfs.VFS
	stop *failstop.Stop
}

// wrote returns the error of a write and stops the store unless the disk is full.
func (f failStop) wrote(err error) error {
	if err == nil || full(err) {
		return err
	}
	return f.stop.Because(err)
}

// OpenFilename implements [vfs.VFSFilename].
func (f failStop) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (file vfs.File, _ vfs.OpenFlag, err error) {
	if err := f.stop.Err(); err != nil {
		return nil, flags, err
	}
	if named, ok := f.VFS.(vfs.VFSFilename); ok {
		file, flags, err = named.OpenFilename(name, flags)
	} else {
		file, flags, err = f.VFS.Open(name.String(), flags)
	}
	if err != nil {
		return nil, flags, err
	}
	return &failStopFile{file, f}, flags, nil
}

// Delete implements [vfs.VFS].
func (f failStop) Delete(name string, syncDir bool) error {
	if err := f.stop.Err(); err != nil {
		return err
	}
	err := f.VFS.Delete(name, syncDir)
	if errors.Is(err, syscall.EIO) {
		return f.stop.Because(err)
	}
	return err
}

// failStopFile is an open file of a failStop.
type failStopFile struct {
	vfs.File
	disk failStop
}

func (f *failStopFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.disk.stop.Err(); err != nil {
		return 0, err
	}
	n, err := f.File.WriteAt(p, off)
	return n, f.disk.wrote(err)
}

func (f *failStopFile) Truncate(size int64) error {
	if err := f.disk.stop.Err(); err != nil {
		return err
	}
	return f.disk.wrote(f.File.Truncate(size))
}

func (f *failStopFile) Sync(flags vfs.SyncFlag) error {
	if err := f.disk.stop.Err(); err != nil {
		return err
	}
	if err := f.File.Sync(flags); err != nil {
		return f.disk.stop.Because(err)
	}
	return nil
}

// SharedMemory implements [vfs.FileSharedMemory].
func (f *failStopFile) SharedMemory() vfs.SharedMemory {
	if shared, ok := f.File.(vfs.FileSharedMemory); ok {
		return shared.SharedMemory()
	}
	return nil
}

// HasMoved implements [vfs.FileHasMoved]: SQLite refuses to write to a file
// that was replaced or deleted under it.
func (f *failStopFile) HasMoved() (bool, error) {
	if moved, ok := f.File.(vfs.FileHasMoved); ok {
		return moved.HasMoved()
	}
	return false, nil
}

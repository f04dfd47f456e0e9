package sqlitestore

import (
	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// fileSystem is what every Store puts between SQLite and its VFS. It says
// "full" in SQLite's terms where the driver would report some I/O error, and
// hands the write-ahead log's frames on in large pieces.
type fileSystem struct{ vfs.VFS }

// OpenFilename implements [vfs.VFSFilename].
func (fs fileSystem) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	var f vfs.File
	var err error
	if named, ok := fs.VFS.(vfs.VFSFilename); ok {
		f, flags, err = named.OpenFilename(name, flags)
	} else {
		f, flags, err = fs.VFS.Open(name.String(), flags)
	}
	switch {
	case err != nil:
		return nil, flags, fullCode(err)
	case flags&vfs.OPEN_WAL != 0:
		return &logFile{File: f, from: synced}, flags, nil
	}
	return &dataFile{File: f}, flags, nil
}

// fullCode turns an error for lack of space into SQLite's code for it.
func fullCode(err error) error {
	if err != nil && full(err) {
		return sqlite3.FULL
	}
	return err
}

// dataFile is any file but the log.
type dataFile struct{ vfs.File }

func (f *dataFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	return n, fullCode(err)
}

func (f *dataFile) Sync(flags vfs.SyncFlag) error { return fullCode(f.File.Sync(flags)) }
func (f *dataFile) Truncate(size int64) error     { return fullCode(f.File.Truncate(size)) }

// SharedMemory implements [vfs.FileSharedMemory].
func (f *dataFile) SharedMemory() vfs.SharedMemory {
	if shared, ok := f.File.(vfs.FileSharedMemory); ok {
		return shared.SharedMemory()
	}
	return nil
}

// HasMoved implements [vfs.FileHasMoved]: SQLite refuses to write to a file
// that was replaced or deleted under it.
func (f *dataFile) HasMoved() (bool, error) {
	if moved, ok := f.File.(vfs.FileHasMoved); ok {
		return moved.HasMoved()
	}
	return false, nil
}

// maxPiece bounds what a logFile holds back.
const maxPiece = 1 << 20

// logFile is the write-ahead log. SQLite writes each frame with two calls; held
// back until the sync that ends every commit (or until anything else is asked
// of the file) they become one. Nobody misses them: other connections look at
// frames only after the index in shared memory names them, and with
// synchronous=FULL that is after the sync.
type logFile struct {
	vfs.File
	piece []byte // not yet written
	at    int64  // where it belongs
	from  int64  // where what was written since the last sync begins, or synced
}

const synced = -1 // nothing was written since

func (f *logFile) WriteAt(p []byte, off int64) (int, error) {
	if len(f.piece) > 0 && (off != f.at+int64(len(f.piece)) || len(f.piece) >= maxPiece) {
		if err := f.flush(); err != nil {
			return 0, err
		}
	}
	if len(f.piece) == 0 {
		f.at = off
	}
	f.piece = append(f.piece, p...)
	return len(p), nil
}

// flush writes the piece. If that fails, the caller fails with it and SQLite
// rolls back, so the piece is dropped. The error says that it was a write, also
// to who asked for a sync: a failed sync has other consequences.
func (f *logFile) flush() error {
	if len(f.piece) == 0 {
		return nil
	}
	if f.from == synced || f.at < f.from {
		f.from = f.at
	}
	_, err := f.File.WriteAt(f.piece, f.at)
	f.piece = f.piece[:0]
	if err != nil && !full(err) {
		return vfs.SystemError(err, sqlite3.IOERR_WRITE)
	}
	return fullCode(err)
}

// rolledBack forgets what was written for a transaction that is no more. Who
// holds the write lock next writes in its place, and must not be written over.
func (f *logFile) rolledBack() { f.piece, f.from = f.piece[:0], synced }

func (f *logFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *logFile) Size() (int64, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *logFile) Truncate(size int64) error {
	if err := f.flush(); err != nil {
		return err
	}
	return fullCode(f.File.Truncate(size))
}

// Sync cuts off what a failed sync may have left in the page cache and nowhere
// else. A process that opens the file later would take it for committed and copy
// it into the database; after power loss the log without it would be replayed
// over that.
func (f *logFile) Sync(flags vfs.SyncFlag) error {
	if err := f.flush(); err != nil {
		return err
	}
	err := f.File.Sync(flags)
	if err != nil && f.from != synced {
		f.File.Truncate(f.from) // the error that counts is that of the sync
	}
	f.from = synced
	return fullCode(err)
}

// Close writes nothing: every commit ended with a sync.
func (f *logFile) Close() error { return f.File.Close() }

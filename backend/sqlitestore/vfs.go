package sqlitestore

import (
	"io"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// fileSystem is the VFS that every Store puts between SQLite and the VFS below. It
// reports a full disk with SQLite's code, where the driver would report an I/O error,
// and writes the frames of the write-ahead log in large pieces.
type fileSystem struct{ failStop }

// OpenFilename implements [vfs.VFSFilename].
func (fs fileSystem) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := fs.failStop.OpenFilename(name, flags)
	switch {
	case err != nil:
		return nil, flags, fullCode(err)
	case flags&vfs.OPEN_WAL != 0:
		return &logFile{File: f}, flags, nil
	case flags&vfs.OPEN_MAIN_JOURNAL != 0:
		return &rollbackFile{dataFile: dataFile{f.(*failStopFile)}, path: name.String()}, flags, nil
	}
	return &dataFile{f.(*failStopFile)}, flags, nil
}

// fullCode returns SQLite's code for a full disk if err means that, else err.
func fullCode(err error) error {
	if err != nil && full(err) {
		return sqlite3.FULL
	}
	return err
}

// dataFile is any file except the log.
type dataFile struct{ *failStopFile }

func (f *dataFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.failStopFile.WriteAt(p, off)
	return n, fullCode(err)
}

func (f *dataFile) Truncate(size int64) error { return fullCode(f.failStopFile.Truncate(size)) }

// Sync syncs the file. If that fails, it makes the next checkpoint, of another process,
// copy the whole log again. SQLite would continue where the last checkpoint ended. But
// a checkpoint that stopped early because of readers did not sync what it copied, and
// the failed sync may have lost that.
func (f *dataFile) Sync(flags vfs.SyncFlag) error {
	err := f.failStopFile.Sync(flags)
	if err != nil {
		f.copyAgain()
	}
	return err
}

// rollbackFile is the rollback journal, which SQLite uses only until a new file has a
// write-ahead log. If its name were lost with the power, nothing would undo a first page
// that was written in part, and the file could never be opened.
type rollbackFile struct {
	dataFile
	path  string
	named bool // its name is durable
}

func (f *rollbackFile) Sync(flags vfs.SyncFlag) error {
	if err := f.dataFile.Sync(flags); err != nil || f.named {
		return err
	}
	if err := syncDir(f.disk.VFS, f.path); err != nil {
		return f.disk.stop.Because(err)
	}
	f.named = true
	return nil
}

// backfilled is the offset in the shared index of the log of the number of frames that
// were copied into the file (https://sqlite.org/walformat.html).
const backfilled = 96

// copyAgain notes in the index that no frame of the log is certainly in the file. The
// caller holds the checkpoint lock, since only a checkpoint syncs the file.
func (f *dataFile) copyAgain() {
	if index, ok := f.SharedMemory().(io.WriterAt); ok {
		index.WriteAt(make([]byte, 4), backfilled) // fails if there is no log yet
	}
}

// maxPiece is about how many bytes a logFile buffers.
const maxPiece = 1 << 20

// logFile is the write-ahead log. SQLite writes each frame with two calls; logFile
// buffers writes and issues one before the sync that ends every commit, or before any
// other operation on the file. The delay is not visible: other connections read frames
// only after the index in shared memory names them, and with synchronous=FULL that is
// after the sync.
type logFile struct {
	vfs.File
	piece []byte // not yet written
	at    int64  // its offset in the file
}

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

// flush writes the piece. It drops the piece even if that fails, since SQLite then
// rolls back.
func (f *logFile) flush() error {
	if len(f.piece) == 0 {
		return nil
	}
	_, err := f.File.WriteAt(f.piece, f.at)
	f.piece = f.piece[:0]
	return fullCode(err)
}

// rolledBack drops the buffered frames of a transaction that was rolled back. The next
// writer writes its frames at the same offset; they must not be overwritten.
func (f *logFile) rolledBack() { f.piece = f.piece[:0] }

// ReadAt flushes and reads. SQLite reads the header, at offset 0, to recover the log,
// while it holds every lock; ReadAt then first writes the log again.
func (f *logFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	if off == 0 {
		if err := f.writeAgain(); err != nil {
			return 0, err
		}
	}
	return f.File.ReadAt(p, off)
}

// writeAgain rewrites and syncs the log. After a failed sync, frames may exist only in
// the page cache, and the next sync may treat them as written. If such frames were
// recovered and copied into the database, and a power loss then removed them from the
// log, replaying the rest of the log would revert a part of the database.
func (f *logFile) writeAgain() error {
	size, err := f.File.Size()
	if err != nil || size == 0 {
		return err
	}
	piece := make([]byte, min(size, maxPiece))
	for off := int64(0); off < size; off += int64(len(piece)) {
		piece = piece[:min(int64(len(piece)), size-off)]
		if _, err := f.File.ReadAt(piece, off); err != nil {
			return err
		}
		if _, err := f.File.WriteAt(piece, off); err != nil {
			return fullCode(err)
		}
	}
	return f.File.Sync(vfs.SYNC_NORMAL)
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

func (f *logFile) Sync(flags vfs.SyncFlag) error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.Sync(flags)
}

// Close does not flush, since every commit ended with a sync.
func (f *logFile) Close() error { return f.File.Close() }

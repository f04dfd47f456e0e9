package sqlitestore

import (
	"io"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// fileSystem is what every Store puts between SQLite and its VFS. It says
// "full" in SQLite's terms where the driver would report some I/O error, and
// hands the write-ahead log's frames on in large pieces.
type fileSystem struct{ failStop }

// OpenFilename implements [vfs.VFSFilename].
func (fs fileSystem) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := fs.failStop.OpenFilename(name, flags)
	switch {
	case err != nil:
		return nil, flags, fullCode(err)
	case flags&vfs.OPEN_WAL != 0:
		return &logFile{File: f}, flags, nil
	}
	return &dataFile{f.(*failStopFile)}, flags, nil
}

// fullCode turns an error for lack of space into SQLite's code for it.
func fullCode(err error) error {
	if err != nil && full(err) {
		return sqlite3.FULL
	}
	return err
}

// dataFile is any file but the log.
type dataFile struct{ *failStopFile }

func (f *dataFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.failStopFile.WriteAt(p, off)
	return n, fullCode(err)
}

func (f *dataFile) Truncate(size int64) error { return fullCode(f.failStopFile.Truncate(size)) }

// Sync lets the next checkpoint, which another process makes, copy the whole log
// again if it fails. SQLite would go on where the last one ended. But a checkpoint
// that readers kept from the end of the log did not sync what it copied, and may have
// lost it now.
func (f *dataFile) Sync(flags vfs.SyncFlag) error {
	err := f.failStopFile.Sync(flags)
	if err != nil {
		f.copyAgain()
	}
	return err
}

// backfilled is where the index of the log, which all processes share, says how
// many frames of the log are in the file (https://sqlite.org/walformat.html).
const backfilled = 96

// copyAgain says that no frame of the log is in the file for sure. The caller
// holds the lock of checkpoints, as who syncs the file does.
func (f *dataFile) copyAgain() {
	if index, ok := f.SharedMemory().(io.WriterAt); ok {
		index.WriteAt(make([]byte, 4), backfilled) // fails if there is no log yet
	}
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

// flush writes the piece. If that fails, the caller fails with it and SQLite
// rolls back, so the piece is dropped.
func (f *logFile) flush() error {
	if len(f.piece) == 0 {
		return nil
	}
	_, err := f.File.WriteAt(f.piece, f.at)
	f.piece = f.piece[:0]
	return fullCode(err)
}

// rolledBack forgets what was held back for a transaction that is no more. Who
// holds the write lock next writes in its place, and must not be written over.
func (f *logFile) rolledBack() { f.piece = f.piece[:0] }

// ReadAt writes the log again before it is recovered, which is when SQLite reads
// its header, holding every lock.
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

// writeAgain brings to the disk what a failed sync may have left in the page
// cache and nowhere else: the next sync takes it for written. Recovered, copied
// into the database and lost from the log with the power, it would leave a log
// that takes a part of the database back.
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

// Close writes nothing: every commit ended with a sync.
func (f *logFile) Close() error { return f.File.Close() }

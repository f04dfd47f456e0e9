package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
	"github.com/thole-dev/thole/journal"
)

// locate checks a path before SQLite opens it. If local, it also checks what the
// operating system has there. A bad path is ErrInvalid.
func locate(path string, local bool) (file, error) {
	if path == "" {
		return file{}, fmt.Errorf("%w: the path of a sqlite store is empty", journal.ErrInvalid)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return file{}, fmt.Errorf("sqlite store %s: %w", path, err)
	}
	if !local {
		return file{path: abs}, nil
	}
	info, err := os.Stat(abs)
	switch {
	case err == nil && info.IsDir():
		return file{}, fmt.Errorf("%w: sqlite store %s is a directory; name a file", journal.ErrInvalid, abs)
	case err == nil && !info.Mode().IsRegular():
		return file{}, fmt.Errorf("%w: sqlite store %s is no regular file; name another", journal.ErrInvalid, abs)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return file{}, fmt.Errorf("sqlite store %s: %w", abs, err)
	case err != nil:
		dir, dirErr := os.Stat(filepath.Dir(abs))
		if dirErr != nil || !dir.IsDir() {
			return file{}, fmt.Errorf("%w: sqlite store %s: there is no directory %s; create it first",
				journal.ErrInvalid, abs, filepath.Dir(abs))
		}
	}
	return file{path: abs}, nil
}

// open returns the connection that writes, with the current schema and a write-ahead
// log. When several processes open a new file at once, they may deadlock; SQLite then
// fails one of them with BUSY without waiting, and open tries again.
func (f *file) open(ctx context.Context, cache int64) (*conn, error) {
	for end := time.Now().Add(busyTimeout); ; {
		c, err := f.tryOpen(ctx, cache)
		if !errors.Is(err, sqlite3.BUSY) || time.Now().After(end) {
			return c, err
		}
		select {
		case <-time.After(time.Millisecond + rand.N(10*time.Millisecond)): // random, against another collision
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (f *file) tryOpen(ctx context.Context, cache int64) (_ *conn, err error) {
	c, err := dial(ctx, f.path, f.vfs, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE, cache)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	f.real = c.Filename("main").String()
	c.SetInterrupt(ctx)
	defer c.SetInterrupt(context.Background())
	if readOnly, _ := c.ReadOnly("main"); readOnly {
		return nil, sqlite3.READONLY
	}
	version, err := f.versionOf(c)
	if err != nil {
		return nil, err
	}
	// page_size only has an effect before the first page is written. The writer
	// checkpoints the log, see checkpoint.go.
	if err := c.Exec(`PRAGMA page_size = 4096; PRAGMA wal_autocheckpoint = 0`); err != nil {
		return nil, err
	}
	if err := f.useWAL(c); err != nil {
		return nil, err
	}
	if err := f.whole(c); err != nil {
		return nil, err
	}
	if version < len(migrations) {
		_, err = f.migrate(c, false)
	}
	return c, err
}

// useWAL switches to a write-ahead log. It returns errors.ErrUnsupported on a file
// system without shared memory.
func (f *file) useWAL(c *conn) error {
	s := c.prepare(`PRAGMA journal_mode = WAL`)
	mode := ""
	if s.next() {
		mode = s.ColumnText(0)
	}
	if err := s.done(); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%w: sqlite store %s: its file system has no shared memory for a write-ahead log (journal mode stays %s); put it on a local disk",
			errors.ErrUnsupported, f.path, mode)
	}
	return nil
}

// whole returns CORRUPT for a file whose last page is incomplete. SQLite itself only
// detects missing whole pages.
func (f *file) whole(c *conn) error {
	before, err := c.integer(`PRAGMA data_version`)
	if err != nil {
		return err
	}
	// The log that a crash left may complete the last page.
	inLog, copied, err := c.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
	if isBusy(err) {
		return nil // another process is checkpointing, so it has checked the file
	}
	if err != nil {
		return err
	}
	if err := c.prepare(`BEGIN IMMEDIATE`).exec(); err != nil {
		return err
	}
	defer c.prepare(`ROLLBACK`).exec()
	after, err := c.integer(`PRAGMA data_version`)
	if err != nil {
		return err
	}
	if before != after || inLog != copied {
		return nil // another process is writing to it
	}
	pageSize, err := c.integer(`PRAGMA page_size`)
	if err != nil {
		return err
	}
	main, err := c.FileControl("main", sqlite3.FCNTL_FILE_POINTER)
	if err != nil {
		return err
	}
	size, err := main.(vfs.File).Size()
	if err == nil && size%pageSize != 0 {
		err = sqlite3.CORRUPT
	}
	return err
}

// syncDir makes the entries of the store's directory durable: the names of the file and
// its log, and the removal of an old log, which would revert the file if it were replayed
// after a power loss. The driver leaves that to the VFS: where SQLite asks it to sync the
// directory of a new log, it syncs the log. A VFS without a method SyncDir needs no sync.
func syncDir(below vfs.VFS, path string) error {
	if fs, ok := below.(interface{ SyncDir(dir string) error }); ok {
		return fs.SyncDir(filepath.Dir(path))
	}
	return nil
}

// SyncDir makes the entries of a directory durable: see syncDir.
func (privateFiles) SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // it cannot sync a directory, and NTFS logs changes of names in order
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

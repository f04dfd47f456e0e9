package sqlitestore

import (
	"errors"
	"io/fs"
	"os"

	"github.com/ncruces/go-sqlite3/vfs"
)

// Files returns the files of the store at path: the database, the log, its index and a
// rollback journal.
func Files(path string) []string {
	return []string{path, path + "-wal", path + "-shm", path + "-journal"}
}

// privateFiles is the operating system's VFS, except for the permissions of new files.
// Only its owner can access a new database. The log, its index and a rollback journal
// get the permissions and the owner of their database, as with SQLite's own VFS. An
// existing file keeps its own.
type privateFiles struct{ vfs.VFSFilename }

// OpenFilename implements [vfs.VFSFilename].
func (p privateFiles) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if name != nil && flags&vfs.OPEN_CREATE != 0 {
		if err := makeFiles(name, flags); err != nil {
			return nil, flags, err
		}
	}
	return p.VFSFilename.OpenFilename(name, flags)
}

// makeFiles creates the file that is about to be opened. It creates the index of the
// log together with the log, since from then on a lock keeps other processes from
// removing either.
func makeFiles(name *vfs.Filename, flags vfs.OpenFlag) error {
	if flags&vfs.OPEN_MAIN_DB != 0 {
		return makeFile(name.String(), nil)
	}
	if flags&(vfs.OPEN_MAIN_JOURNAL|vfs.OPEN_WAL) == 0 {
		return nil
	}
	like, err := os.Stat(name.Database())
	if err != nil {
		return err
	}
	if flags&vfs.OPEN_WAL != 0 {
		if err := makeFile(name.Database()+"-shm", like); err != nil {
			return err
		}
	}
	return makeFile(name.String(), like)
}

// makeFile creates an empty file with the permissions and the owner of another, or with
// 0600 if like is nil. An existing file is not an error.
func makeFile(path string, like fs.FileInfo) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrPermission) {
		return nil // it exists, or opening it reports the error
	}
	if err != nil {
		return err
	}
	if like != nil {
		chownLike(f, like)
		err = f.Chmod(like.Mode().Perm())
	}
	return errors.Join(err, f.Close())
}

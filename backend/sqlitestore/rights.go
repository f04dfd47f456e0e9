package sqlitestore

import (
	"errors"
	"io/fs"
	"os"

	"github.com/ncruces/go-sqlite3/vfs"
)

// privateFiles is the operating system's VFS, except for the rights of the files
// that it makes. A new database is for its owner alone. The log, its index and a
// journal get the rights and the owner of their database, as SQLite's own VFS gives
// them; an existing file keeps what it has.
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

// makeFiles makes the file that is about to be opened. The index of the log is made
// with the log: from here on a lock keeps other processes from removing either.
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

// makeFile makes an empty file with the rights and the owner of another; nil: for
// its owner alone.
func makeFile(path string, like fs.FileInfo) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrPermission) {
		return nil // there is none to make, or opening it reports why not
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

package sqlitestore_test

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/ncruces/go-sqlite3/vfs"
)

var errGaveUp = errors.New("the caller gave up")

// platterFS is a platter as the SQLite of one process sees it.
type platterFS struct {
	vfs.VFSFilename
	*platter
	process int
}

// newPlatterFS returns the platter for a process that starts now.
func newPlatterFS(p *platter) platterFS {
	return platterFS{VFSFilename: vfs.Find("os").(vfs.VFSFilename), platter: p, process: p.process}
}

// SyncDir makes the names in the directory durable. The first sync of a new log does
// not: see syncDir of package sqlitestore.
func (fs platterFS) SyncDir(dir string) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if dir != fs.dir {
		return nil // it makes no name of this disk durable
	}
	if err := fs.before(syncing, fs.process); err != nil {
		return err
	}
	fs.syncNames()
	return nil
}

// OpenFilename implements [vfs.VFSFilename]. A file without a name is temporary: it can
// fail like others, but is gone when it is closed.
func (fs platterFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	base := filepath.Base(name.String())
	known := fs.names[base]
	if known == nil && flags&vfs.OPEN_CREATE != 0 {
		if err := fs.before(creating, fs.process); err != nil {
			return nil, flags, err
		}
	}
	f, flags, err := fs.VFSFilename.OpenFilename(name, flags)
	if err != nil {
		return nil, flags, err
	}
	if known == nil {
		known = fs.newInode(base)
		if name != nil {
			fs.names[base] = known
			fs.renamed = append(fs.renamed, entry{base, known})
		}
	}
	return &platterFile{File: f, disk: fs.platter, inode: known, process: fs.process, told: known.failed}, flags, nil
}

// Delete implements [vfs.VFS].
func (fs platterFS) Delete(name string, syncDir bool) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if err := fs.before(deleting, fs.process); err != nil {
		return err
	}
	if err := fs.VFSFilename.Delete(name, false); err != nil {
		return err
	}
	base := filepath.Base(name)
	delete(fs.names, base)
	fs.renamed = append(fs.renamed, entry{name: base})
	if syncDir && fs.lies != syncsNothing {
		fs.syncNames()
	}
	return nil
}

// before returns the error of op, if it fails without any effect.
func (p *platter) before(op operation, process int) error {
	if p.off || process != p.process {
		return errOff
	}
	kind, strikes := p.next(op)
	switch {
	case strikes && kind == powerLost:
		p.losePower()
		return errOff
	case p.full && op == creating && !p.paused:
		return syscall.ENOSPC
	case !strikes || kind == cancelled || kind == noSpace:
		return nil
	}
	return syscall.EIO
}

// platterFile is an open file of a platter.
type platterFile struct {
	vfs.File
	disk *platter
	*inode
	process int
	told    int // how many failed syncs of the inode were reported to this file
}

// SharedMemory implements [vfs.FileSharedMemory].
func (f *platterFile) SharedMemory() vfs.SharedMemory {
	return f.File.(vfs.FileSharedMemory).SharedMemory()
}

// HasMoved implements [vfs.FileHasMoved].
func (f *platterFile) HasMoved() (bool, error) { return f.File.(vfs.FileHasMoved).HasMoved() }

func (f *platterFile) ReadAt(p []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.before(reading, f.process); err != nil {
		return 0, err
	}
	if f.disk.lies == mixesUp && !f.log && off >= 8<<12 && len(p) == 1<<12 && f.disk.rand.IntN(50) == 0 {
		off -= 1 << 12
	}
	return f.File.ReadAt(p, off)
}

func (f *platterFile) WriteAt(p []byte, off int64) (int, error) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off || f.process != d.process {
		return 0, errOff
	}
	kind, strikes := d.next(writing)
	size, err := f.File.Size()
	if err != nil {
		return 0, err
	}
	var fails error
	switch {
	case d.lies == writesLess && d.rand.IntN(20) == 0:
		p = p[:len(p)/2]
	case d.full && !d.paused && off+int64(len(p)) > size: // what is already allocated stays writable
		p, fails = p[:max(0, size-off)], syscall.ENOSPC
	case strikes && kind == powerLost: // the power fails during the write
		f.note(change{off: off, data: slices.Clone(p)})
		d.losePower()
		return 0, errOff
	case !strikes || kind == cancelled || kind == noSpace:
	case kind == shortWrite:
		p, fails = p[:d.rand.IntN(len(p))], io.ErrShortWrite
	default:
		p, fails = p[:d.rand.IntN(len(p)+1)], syscall.EIO
	}
	n, err := f.File.WriteAt(p, off)
	if n > 0 {
		f.note(change{off: off, data: slices.Clone(p[:n])})
	}
	if err == nil {
		err = fails
	}
	return n, err
}

func (f *platterFile) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.before(truncating, f.process); err != nil {
		return err
	}
	if err := f.File.Truncate(size); err != nil {
		return err
	}
	f.note(change{off: size, truncate: true})
	return nil
}

// Sync also fails on a full disk, since space may be allocated late. As on Linux, each
// open file gets the failure of a sync of its inode once.
func (f *platterFile) Sync(vfs.SyncFlag) error {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.before(syncing, f.process)
	if d.off || f.process != d.process {
		return err
	}
	if err == nil && d.full && !d.paused && len(f.unsynced) > 0 && d.rand.IntN(2) == 0 {
		err = syscall.ENOSPC
	}
	if err == syscall.EIO {
		f.failed++
	}
	d.sync(f.inode, err != nil)
	if f.told < f.failed {
		if err == nil { // the sync of another open file failed
			d.echoes++
		}
		f.told, err = f.failed, syscall.EIO
	}
	return err
}

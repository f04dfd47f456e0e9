package faultfs

import (
	"errors"
	"io/fs"
	"sync"
)

// ErrKilled is the error of every operation of a killed process.
var ErrKilled = errors.New("the process was killed")

// Process is a file system as seen by one of several processes that share it. A kill
// ends only that process: its current operation completes, its locks are released, and
// what it wrote stays, synced or not.
type Process struct {
	fs *FS

	mu   sync.Mutex // held during each operation
	dead bool
	open []*handle
}

// Process returns the file system as a new process sees it.
func (f *FS) Process() *Process { return &Process{fs: f} }

// Kill ends the process.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kill()
}

func (p *Process) kill() {
	p.dead = true
	for _, h := range p.open {
		h.Unlock()
	}
}

// Dead reports whether the process was killed.
func (p *Process) Dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// do runs an operation, unless the process is dead or is killed before it.
func (p *Process) do(operation func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dead && p.fs.kills() {
		p.kill()
	}
	if p.dead {
		return ErrKilled
	}
	return operation()
}

// kills decides at random whether a process is killed now.
func (f *FS) kills() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.rates[Killed]
	if n == 0 || f.dead || f.rand.IntN(n) != 0 {
		return false
	}
	f.counts[Killed]++
	return true
}

// OpenFile is that of [FS].
func (p *Process) OpenFile(path string, flag int) (file File, err error) {
	err = p.do(func() error {
		f, err := p.fs.OpenFile(path, flag)
		if err == nil {
			h := f.(*handle)
			p.open = append(p.open, h)
			file = processFile{h, p}
		}
		return err
	})
	return file, err
}

// Stat is that of [FS].
func (p *Process) Stat(path string) (info fs.FileInfo, err error) {
	err = p.do(func() (err error) { info, err = p.fs.Stat(path); return err })
	return info, err
}

// ReadDir is that of [FS].
func (p *Process) ReadDir(path string) (entries []fs.DirEntry, err error) {
	err = p.do(func() (err error) { entries, err = p.fs.ReadDir(path); return err })
	return entries, err
}

// Mkdir is that of [FS].
func (p *Process) Mkdir(path string) error { return p.do(func() error { return p.fs.Mkdir(path) }) }

// Rename is that of [FS].
func (p *Process) Rename(from, to string) error {
	return p.do(func() error { return p.fs.Rename(from, to) })
}

// Remove is that of [FS].
func (p *Process) Remove(path string) error { return p.do(func() error { return p.fs.Remove(path) }) }

// SyncDir is that of [FS].
func (p *Process) SyncDir(path string) error { return p.do(func() error { return p.fs.SyncDir(path) }) }

// processFile is an open file of a process.
type processFile struct {
	*handle
	process *Process
}

func (f processFile) ReadAt(b []byte, off int64) (n int, err error) {
	err = f.process.do(func() (err error) { n, err = f.handle.ReadAt(b, off); return err })
	return n, err
}

func (f processFile) WriteAt(b []byte, off int64) (n int, err error) {
	err = f.process.do(func() (err error) { n, err = f.handle.WriteAt(b, off); return err })
	return n, err
}

func (f processFile) Truncate(size int64) error {
	return f.process.do(func() error { return f.handle.Truncate(size) })
}

func (f processFile) Sync() error { return f.process.do(f.handle.Sync) }

func (f processFile) Stat() (info fs.FileInfo, err error) {
	err = f.process.do(func() (err error) { info, err = f.handle.Stat(); return err })
	return info, err
}

func (f processFile) TryLock() (ok bool, err error) {
	err = f.process.do(func() (err error) { ok, err = f.handle.TryLock(); return err })
	return ok, err
}

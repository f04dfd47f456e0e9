// Package faultfs is a file system in memory that fails like a real one: writes
// are short, the disk is full, reads and writes return I/O errors, a failed sync drops
// what it should have made durable, and a crash loses whatever was not synced,
// including names in directories.
//
// Its methods are those of package os, on paths with slashes or the system's
// separator.
package faultfs

import (
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// File is an open file. It is an alias of an interface, so that neither this package
// nor its users need to import each other.
type File = interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Stat() (fs.FileInfo, error)
	TryLock() (bool, error)
	Unlock() error
	Close() error
}

// FS is a file system. It is safe for concurrent use.
type FS struct {
	mu    sync.Mutex
	rand  *rand.Rand
	root  *node
	ops   []nameOp // changes of names that are not durable yet
	clock int64
	faults
}

// node is a file or a directory.
type node struct {
	dir      bool
	modified int64

	data    []byte  // what readers see
	durable []byte  // what is on stable storage
	pending []write // the difference between the two, in order
	locked  *handle

	names   map[string]*node
	onDisk  map[string]*node
	crashed *node // its copy, during Crash
}

// write is a change of a file's content: data at an offset, or a new size.
type write struct {
	offset int64
	data   []byte // nil: the offset is the new size
}

// nameOp is an atomic change of names.
type nameOp []nameChange

type nameChange struct {
	dir  *node
	name string
	node *node // nil: the name is removed
}

// New returns an empty file system without faults. The seed determines the effects of
// later faults and crashes.
func New(seed uint64) *FS {
	f := &FS{rand: rand.New(rand.NewPCG(seed, 7)), root: newDir()}
	f.counts = map[Kind]int{}
	return f
}

func newDir() *node {
	return &node{dir: true, names: map[string]*node{}, onDisk: map[string]*node{}}
}

// Crash returns what is left after a power failure: what was synced, and any part of
// the rest. After that, every operation of the old file system fails.
func (f *FS) Crash() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = true
	for _, op := range f.ops {
		if f.rand.IntN(2) == 0 {
			op.persist()
		}
	}
	after := New(f.rand.Uint64())
	after.clock = f.clock
	after.counts = f.counts
	after.root = f.survive(f.root)
	return after
}

// survive returns a copy of the durable content of a node and some of the rest.
func (f *FS) survive(n *node) *node {
	if n.crashed != nil {
		return n.crashed
	}
	c := &node{dir: n.dir, modified: n.modified}
	n.crashed = c
	if n.dir {
		c.names, c.onDisk = map[string]*node{}, map[string]*node{}
		for _, name := range slices.Sorted(maps.Keys(n.onDisk)) {
			c.onDisk[name] = f.survive(n.onDisk[name])
		}
		maps.Copy(c.names, c.onDisk)
		return c
	}
	data := slices.Clone(n.durable)
	for _, w := range n.pending {
		switch f.rand.IntN(3) {
		case 0:
			data = w.apply(data)
		case 1: // torn
			if w.data != nil {
				data = f.tear(w, data)
			}
		}
	}
	c.data, c.durable = data, slices.Clone(data)
	return c
}

// tear returns data with a part of the write: its beginning, or some of its sectors.
func (f *FS) tear(w write, data []byte) []byte {
	if f.rand.IntN(2) == 0 {
		w.data = w.data[:f.rand.IntN(len(w.data)+1)]
		return w.apply(data)
	}
	for rest := w.data; len(rest) > 0; {
		part := write{w.offset, rest[:min(len(rest), sector-int(w.offset%sector))]}
		if f.rand.IntN(2) == 0 {
			data = part.apply(data)
		}
		rest, w.offset = rest[len(part.data):], w.offset+int64(len(part.data))
	}
	return data
}

// sector is how many bytes a disk writes at once.
const sector = 512

// apply returns data with the write applied. It may modify data.
func (w write) apply(data []byte) []byte {
	if w.data == nil {
		if w.offset <= int64(len(data)) {
			return data[:w.offset]
		}
		return append(data, make([]byte, w.offset-int64(len(data)))...)
	}
	if end := w.offset + int64(len(w.data)); end > int64(len(data)) {
		data = append(data, make([]byte, end-int64(len(data)))...)
	}
	copy(data[w.offset:], w.data)
	return data
}

func (op nameOp) persist() {
	for _, c := range op {
		if c.node == nil {
			delete(c.dir.onDisk, c.name)
		} else {
			c.dir.onDisk[c.name] = c.node
		}
	}
}

// change applies a change of names in memory; a sync of the directory makes it durable.
func (f *FS) change(op nameOp) {
	for _, c := range op {
		if c.node == nil {
			delete(c.dir.names, c.name)
		} else {
			c.dir.names[c.name] = c.node
		}
		f.touch(c.dir)
	}
	f.ops = append(f.ops, op)
}

func (f *FS) touch(n *node) {
	f.clock += int64(time.Millisecond)
	n.modified = f.clock
}

// find returns the node of a path, nil if there is none, and its directory.
func (f *FS) find(path string) (parent *node, base string, n *node, err error) {
	n = f.root
	for _, base = range strings.FieldsFunc(filepath.ToSlash(path), func(r rune) bool { return r == '/' }) {
		parent = n
		if parent == nil || !parent.dir {
			return nil, "", nil, fs.ErrNotExist
		}
		n = parent.names[base]
	}
	return parent, base, n, nil
}

func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// OpenFile opens a file. It honors the flags os.O_CREATE, os.O_EXCL and os.O_TRUNC.
func (f *FS) OpenFile(path string, flag int) (File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	parent, base, n, err := f.find(path)
	if err == nil && n == nil && flag&os.O_CREATE == 0 {
		err = fs.ErrNotExist
	}
	if err == nil && n != nil && flag&os.O_EXCL != 0 {
		err = fs.ErrExist
	}
	if err == nil && n != nil && n.dir {
		err = syscall.EISDIR
	}
	if err == nil {
		err = f.fault(onOpen, n == nil)
	}
	if err != nil {
		return nil, pathError("open", path, err)
	}
	if n == nil {
		n = &node{}
		f.change(nameOp{{parent, base, n}})
	} else if flag&os.O_TRUNC != 0 {
		n.write(write{})
		f.touch(n)
	}
	return &handle{fs: f, node: n, path: path}, nil
}

// Stat describes a file or directory.
func (f *FS) Stat(path string) (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, base, n, err := f.find(path)
	if err == nil && n == nil {
		err = fs.ErrNotExist
	}
	if err == nil {
		err = f.fault(onOpen, false)
	}
	if err != nil {
		return nil, pathError("stat", path, err)
	}
	return n.info(base), nil
}

// ReadDir lists a directory by name.
func (f *FS) ReadDir(path string) ([]fs.DirEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _, n, err := f.find(path)
	switch {
	case err != nil:
	case n == nil:
		err = fs.ErrNotExist
	case !n.dir:
		err = syscall.ENOTDIR
	default:
		err = f.fault(onRead, false)
	}
	if err != nil {
		return nil, pathError("readdir", path, err)
	}
	var entries []fs.DirEntry
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		entries = append(entries, fs.FileInfoToDirEntry(n.names[name].info(name)))
	}
	return entries, nil
}

// Mkdir makes a directory.
func (f *FS) Mkdir(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	parent, base, n, err := f.find(path)
	if err == nil && n != nil {
		err = fs.ErrExist
	}
	if err == nil {
		err = f.fault(onOpen, true)
	}
	if err == nil {
		f.change(nameOp{{parent, base, newDir()}})
	}
	return pathError("mkdir", path, err)
}

// Rename renames a file or directory. It replaces an existing file of the new name.
func (f *FS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	fromDir, fromBase, n, err := f.find(from)
	if err == nil && n == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return pathError("rename", from, err)
	}
	toDir, toBase, old, err := f.find(to)
	if err == nil && old != nil && (old.dir || n.dir) {
		err = fs.ErrExist
	}
	if err == nil {
		err = f.fault(onRename, true)
	}
	if err == nil {
		f.change(nameOp{{fromDir, fromBase, nil}, {toDir, toBase, n}})
	}
	return pathError("rename", to, err)
}

// Remove removes a file or an empty directory.
func (f *FS) Remove(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	parent, base, n, err := f.find(path)
	switch {
	case err != nil:
	case n == nil:
		err = fs.ErrNotExist
	case len(n.names) > 0:
		err = syscall.ENOTEMPTY
	default:
		err = f.fault(onDelete, false)
	}
	if err == nil {
		f.change(nameOp{{parent, base, nil}})
	}
	return pathError("remove", path, err)
}

// SyncDir makes the entries of a directory durable.
func (f *FS) SyncDir(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _, n, err := f.find(path)
	if err == nil && n == nil {
		err = fs.ErrNotExist
	}
	if err == nil {
		err = f.fault(onSync, false)
	}
	if err != nil {
		return pathError("sync", path, err)
	}
	f.persistNames(n)
	return nil
}

// persistNames makes the changes of names in a directory durable, and earlier changes
// of the same names, since no file system reorders these.
func (f *FS) persistNames(dir *node) {
	type entry struct {
		dir  *node
		name string
	}
	names := map[entry]bool{}
	durable := make([]bool, len(f.ops))
	for i, op := range slices.Backward(f.ops) {
		durable[i] = slices.ContainsFunc(op, func(c nameChange) bool { return c.dir == dir || names[entry{c.dir, c.name}] })
		if durable[i] {
			for _, c := range op {
				names[entry{c.dir, c.name}] = true
			}
		}
	}
	var left []nameOp
	for i, op := range f.ops {
		if durable[i] {
			op.persist()
		} else {
			left = append(left, op)
		}
	}
	f.ops = left
}

func (n *node) info(name string) fs.FileInfo {
	return info{name: name, size: int64(len(n.data)), modified: n.modified, dir: n.dir}
}

type info struct {
	name           string
	size, modified int64
	dir            bool
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return time.Unix(0, i.modified) }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

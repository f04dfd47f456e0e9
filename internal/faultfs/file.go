package faultfs

import (
	"io"
	"io/fs"
	"slices"
)

// handle is an open file.
type handle struct {
	fs     *FS
	node   *node
	path   string
	closed bool
}

// write changes what readers see, and keeps the write as pending until a sync.
func (n *node) write(w write) {
	n.data = w.apply(n.data)
	n.pending = append(n.pending, w)
}

func (h *handle) begin() error {
	if h.closed {
		return fs.ErrClosed
	}
	return nil
}

// ReadAt reads the written content, synced or not.
func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	err := h.begin()
	if err == nil {
		err = h.fs.fault(onRead, false)
	}
	if err != nil {
		return 0, pathError("read", h.path, err)
	}
	if off >= int64(len(h.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, h.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes. If it fails, it may have written a part.
func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	err := h.begin()
	if err == nil {
		err = h.fs.fault(onWrite, true)
	}
	n := len(p)
	if err != nil && n > 0 {
		n = h.fs.rand.IntN(n)
	}
	if h.closed || h.fs.gone {
		n = 0
	}
	if n > 0 {
		h.node.write(write{off, slices.Clone(p[:n])})
		h.fs.touch(h.node)
	}
	return n, pathError("write", h.path, err)
}

// Truncate sets the size.
func (h *handle) Truncate(size int64) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	err := h.begin()
	if err == nil {
		err = h.fs.fault(onCut, false)
	}
	if err == nil {
		h.node.write(write{offset: size})
		h.fs.touch(h.node)
	}
	return pathError("truncate", h.path, err)
}

// Sync makes the content durable. If it fails, any part of the pending writes is
// durable and the rest never will be, although readers continue to see it.
func (h *handle) Sync() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	err := h.begin()
	if err == nil {
		err = h.fs.fault(onSync, false)
	}
	if h.closed || h.fs.gone {
		return pathError("sync", h.path, err)
	}
	for _, w := range h.node.pending {
		if err == nil || h.fs.rand.IntN(2) == 0 {
			h.node.durable = w.apply(h.node.durable)
		}
	}
	h.node.pending = nil
	return pathError("sync", h.path, err)
}

// Stat describes the file.
func (h *handle) Stat() (fs.FileInfo, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	err := h.begin()
	if err == nil {
		err = h.fs.fault(onOpen, false)
	}
	if err != nil {
		return nil, pathError("stat", h.path, err)
	}
	return h.node.info(h.path), nil
}

// TryLock takes the lock of the file and reports whether it could. It fails if another
// handle holds the lock.
func (h *handle) TryLock() (bool, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.begin(); err != nil || h.fs.dead {
		return false, pathError("lock", h.path, fs.ErrClosed)
	}
	if h.node.locked != nil && h.node.locked != h {
		return false, nil
	}
	h.node.locked = h
	return true, nil
}

// Unlock releases the lock.
func (h *handle) Unlock() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	h.unlock()
	return nil
}

func (h *handle) unlock() {
	if h.node.locked == h {
		h.node.locked = nil
	}
}

// Close closes the file and releases its lock.
func (h *handle) Close() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	h.unlock()
	if h.closed {
		return pathError("close", h.path, fs.ErrClosed)
	}
	h.closed = true
	return nil
}

package main

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// recordSize is what every side appends: 512 bytes.
const recordSize = 512

// limit is the raw limit of this machine: n goroutines append 512-byte records
// to one file through one writer that writes what is queued and syncs once
// (fdatasync). With prealloc the file has its full size beforehand, so that a
// sync moves data only.
func limit(n int, prealloc bool) func(context.Context, string, time.Duration) (sample, error) {
	return func(ctx context.Context, dir string, d time.Duration) (sample, error) {
		f, err := os.Create(filepath.Join(dir, "journal"))
		if err != nil {
			return sample{}, err
		}
		defer f.Close()
		if prealloc {
			// Written, not only allocated: an unwritten extent costs metadata.
			zero := make([]byte, 1<<20)
			for range 512 {
				if _, err := f.Write(zero); err != nil {
					return sample{}, err
				}
			}
			if err := f.Sync(); err != nil {
				return sample{}, err
			}
			if _, err := f.Seek(0, 0); err != nil {
				return sample{}, err
			}
		}
		w := &rawWriter{file: f, wake: make(chan struct{}, 1), ended: make(chan struct{})}
		go w.run()
		record := make([]byte, recordSize)
		s, err := load(ctx, n, d, func(int, int) error { return w.append(record) })
		w.close()
		return s, err
	}
}

type rawWriter struct {
	file   *os.File
	mu     sync.Mutex
	buf    []byte
	wait   []chan error
	closed bool
	wake   chan struct{}
	ended  chan struct{}
}

func (w *rawWriter) append(record []byte) error {
	done := make(chan error, 1)
	w.mu.Lock()
	w.buf = append(w.buf, record...)
	w.wait = append(w.wait, done)
	w.mu.Unlock()
	w.signal()
	return <-done
}

func (w *rawWriter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *rawWriter) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.signal()
	<-w.ended
}

func (w *rawWriter) run() {
	defer close(w.ended)
	var buf []byte
	var wait []chan error
	for range w.wake {
		for {
			w.mu.Lock()
			buf, w.buf = w.buf, buf[:0]
			wait, w.wait = w.wait, wait[:0]
			closed := w.closed
			w.mu.Unlock()
			if len(wait) == 0 {
				if closed {
					return
				}
				break
			}
			_, err := w.file.Write(buf)
			if err == nil {
				err = syscall.Fdatasync(int(w.file.Fd()))
			}
			for _, done := range wait {
				done <- err
			}
		}
	}
}

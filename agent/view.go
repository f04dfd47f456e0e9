package agent

import (
	"slices"
	"sync"
)

// view is a file as one agent last saw it, by reading or by writing it.
type view struct {
	hash    string
	content string
}

// views are the files that one agent has seen. Its next edit of a file starts
// from there, whatever is in the file by then.
type views struct {
	mu sync.Mutex
	m  map[string]view
}

func (v *views) get(path string) (view, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen, ok := v.m[path]
	return seen, ok
}

func (v *views) set(path string, seen view) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.m == nil {
		v.m = make(map[string]view)
	}
	v.m[path] = seen
}

func (v *views) forget(path string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.m, path)
}

// work is what a run and its sub-agents did to files together.
type work struct {
	mu      sync.Mutex
	touched []string // in the order of their first touch
	open    bool     // something was changed since the last "done"
}

// change notes that a file was changed.
func (w *work) change(path string) {
	w.see(path)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = true
}

// see notes that a file was read.
func (w *work) see(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.touched, path) {
		w.touched = append(w.touched, path)
	}
}

func (w *work) files() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.touched)
}

func (w *work) pending() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}

// done ends the open work and returns its files, once.
func (w *work) done() ([]string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open {
		return nil, false
	}
	w.open = false
	return slices.Clone(w.touched), true
}

// Package fanout delivers what is committed to a space to all of its watchers. A hub
// keeps the newest part of a watched space's journal in memory, interleaved with
// broadcasts. A [Cursor] reads from the hub, or from the journal if it has fallen
// behind (see ring.go). So a slow watcher never holds up a writer and takes no memory.
package fanout

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/thole-dev/thole/journal"
)

// Source gives a Fanout access to its Store.
type Source struct {
	Head func(ctx context.Context, space string) (journal.Head, error)
	Read func(ctx context.Context, space string, q journal.ReadQuery) (journal.Page, error)

	// Heads returns the heads of the spaces that can be reached now, and the names of
	// those that are damaged.
	Heads func(ctx context.Context, spaces []string) (heads []journal.Head, damaged []string, err error)

	// Erased returns a position that changes with each purge of the space.
	Erased func(ctx context.Context, space string) (journal.Position, error)

	// Lift converts an event of an earlier schema, as Read does. It replaces the event's
	// data and never changes it in place.
	Lift func(e *journal.Event)

	// Busy returns the number of the batch, if any, that may have committed to the
	// space without Committed having been called for it; 0: there is none.
	Busy func(space string) uint64
}

// Fanout holds the hubs of the spaces that are watched in this process. It is safe for
// concurrent use.
type Fanout struct {
	source Source
	limit  int // bytes in a hub's ring
	log    *slog.Logger

	mu     sync.RWMutex
	hubs   map[string]*hub
	closed bool

	touched []*hub // by the current batch; Committed is called by one goroutine at a time

	hintMu sync.Mutex
	hinted map[string]bool // spaces to catch up; "" means all
	later  []string        // spaces to hint at after the current batch
	wake   chan struct{}   // capacity 1: hinted is not empty
}

// New returns a Fanout that keeps about limit bytes for each watched space.
func New(source Source, limit int, log *slog.Logger) *Fanout {
	return &Fanout{source: source, limit: limit, log: log,
		hubs: make(map[string]*hub), hinted: make(map[string]bool), wake: make(chan struct{}, 1)}
}

// Committed delivers a durable batch to the watchers and wakes those of each space
// once. One goroutine at a time calls it, with each batch.
func (f *Fanout) Committed(batch []journal.Commit, results []journal.Result) {
	f.mu.RLock()
	for i := range batch {
		if results[i].Conflict != nil {
			continue
		}
		if h := f.hubs[batch[i].Space]; h != nil && h.committed(&batch[i], results[i]) && !slices.Contains(f.touched, h) {
			f.touched = append(f.touched, h)
		}
	}
	f.mu.RUnlock()
	for _, h := range f.touched {
		h.mu.Lock()
		h.announce()
		h.mu.Unlock()
	}
	clear(f.touched)
	f.touched = f.touched[:0]
}

// Broadcast delivers a live-only message to the watchers of a space, after every event
// that was acknowledged before the call.
func (f *Fanout) Broadcast(space string, e journal.Event) {
	if h := f.find(space); h != nil {
		h.broadcast(&journal.Delivery{Event: e})
	}
}

// Watchers returns the number of cursors of a space.
func (f *Fanout) Watchers(space string) int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if h := f.hubs[space]; h != nil {
		return h.watchers
	}
	return 0
}

// Spaces returns the names of the watched spaces.
func (f *Fanout) Spaces() []string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	names := make([]string, 0, len(f.hubs))
	for name := range f.hubs {
		names = append(names, name)
	}
	return names
}

// Reset begins a new era for a space whose past has changed: its cursors read the
// space's head again and check whether their positions can be resumed.
func (f *Fanout) Reset(space string) {
	if h := f.find(space); h != nil {
		h.reset()
	}
}

// Close ends all cursors with ErrClosed.
func (f *Fanout) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, h := range f.hubs {
		h.close()
	}
}

func (f *Fanout) attach(space string) (*hub, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, journal.ErrClosed
	}
	h := f.hubs[space]
	if h == nil {
		h = &hub{fanout: f, space: space, limit: f.limit}
		f.hubs[space] = h
	}
	h.watchers++
	return h, nil
}

func (f *Fanout) detach(h *hub) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h.watchers--; h.watchers == 0 && f.hubs[h.space] == h {
		delete(f.hubs, h.space)
	}
}

func (f *Fanout) find(space string) *hub {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.hubs[space]
}

package thole

import (
	"context"
	"sync"
)

// taps are those who want to hear of every space that changes: see [Store.Hints].
type taps struct {
	mu  sync.Mutex
	all map[*tap]struct{}
}

// tap collects the names of spaces for one of them.
type tap struct {
	mu     sync.Mutex
	spaces map[string]struct{}

	wake chan struct{} // capacity 1: spaces is not empty
}

// maxHinted bounds the spaces that one tap remembers; more are told as "all".
const maxHinted = 1024

// Hints calls wake with the name of each space that changes through this Store
// or that its backend gives a hint about, once the change can be read, until ctx
// ends; then it returns nil. ErrClosed when the Store closes. Hints coalesce; an
// empty name means "check all", which is the first hint: none is missed from then
// on.
func (s *Store) Hints(ctx context.Context, wake func(space string)) error {
	t := &tap{spaces: make(map[string]struct{}), wake: make(chan struct{}, 1)}
	t.touch("")
	s.taps.add(t)
	defer s.taps.remove(t)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.exchange.over:
			return ErrClosed
		case <-t.wake:
		}
		for space := range t.take() {
			wake(space)
		}
	}
}

func (ts *taps) add(t *tap) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.all == nil {
		ts.all = make(map[*tap]struct{})
	}
	ts.all[t] = struct{}{}
}

func (ts *taps) remove(t *tap) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	delete(ts.all, t)
}

// touch tells all of a space that changed. It never waits for them.
func (ts *taps) touch(space string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for t := range ts.all {
		t.touch(space)
	}
}

// committed tells all of what a batch changed.
func (ts *taps) committed(batch []Commit, results []Result) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for t := range ts.all {
		for i := range batch {
			if results[i].Conflict == nil {
				t.touch(batch[i].Space)
			}
		}
	}
}

func (t *tap) touch(space string) {
	t.mu.Lock()
	if len(t.spaces) >= maxHinted {
		clear(t.spaces)
		space = ""
	}
	if _, all := t.spaces[""]; !all {
		t.spaces[space] = struct{}{}
	}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *tap) take() map[string]struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	spaces := t.spaces
	t.spaces = make(map[string]struct{}, min(len(spaces), 16))
	return spaces
}

package fanout

import (
	"context"
	"sync"

	"github.com/thole-dev/thole/journal"
)

// Hints tell their listeners of every space that changes. The zero value is ready.
type Hints struct {
	mu  sync.Mutex
	all map[*listener]struct{}
}

// listener collects the names of spaces for one of them.
type listener struct {
	mu     sync.Mutex
	spaces map[string]struct{}

	wake chan struct{} // capacity 1: spaces is not empty
}

// maxHinted bounds the spaces that one listener remembers; more are told as "all".
const maxHinted = 1024

// Listen calls wake with the name of each space that changes, once the change can be
// read, until ctx ends; then it returns nil. ErrClosed when over is closed. An empty
// name means "check all", which is the first hint: none is missed from then on.
func (hs *Hints) Listen(ctx context.Context, over <-chan struct{}, wake func(space string)) error {
	l := &listener{spaces: make(map[string]struct{}), wake: make(chan struct{}, 1)}
	l.touch("")
	hs.add(l)
	defer hs.remove(l)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			return journal.ErrClosed
		case <-l.wake:
		}
		for space := range l.take() {
			wake(space)
		}
	}
}

func (hs *Hints) add(l *listener) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.all == nil {
		hs.all = make(map[*listener]struct{})
	}
	hs.all[l] = struct{}{}
}

func (hs *Hints) remove(l *listener) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	delete(hs.all, l)
}

// Touch tells all of a space that changed. It never waits for them.
func (hs *Hints) Touch(space string) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for l := range hs.all {
		l.touch(space)
	}
}

// Committed tells all of what a batch changed.
func (hs *Hints) Committed(batch []journal.Commit, results []journal.Result) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for l := range hs.all {
		for i := range batch {
			if results[i].Conflict == nil {
				l.touch(batch[i].Space)
			}
		}
	}
}

func (l *listener) touch(space string) {
	l.mu.Lock()
	if len(l.spaces) >= maxHinted {
		clear(l.spaces)
		space = ""
	}
	if _, all := l.spaces[""]; !all {
		l.spaces[space] = struct{}{}
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *listener) take() map[string]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	spaces := l.spaces
	l.spaces = make(map[string]struct{}, min(len(spaces), 16))
	return spaces
}

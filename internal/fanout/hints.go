package fanout

import (
	"context"
	"sync"

	"github.com/thole-dev/thole/journal"
)

// Hints notifies listeners of every space that changes. The zero value is ready to use.
type Hints struct {
	mu  sync.Mutex
	all map[*listener]struct{}
}

// listener collects the names of changed spaces for one call of Listen.
type listener struct {
	mu     sync.Mutex
	spaces map[string]struct{}

	wake chan struct{} // capacity 1: spaces is not empty
}

// maxHinted bounds the names that a listener collects; more become "check all".
const maxHinted = 1024

// Listen calls wake with the name of each space that changes, once the change can be
// read. It returns nil when ctx ends and ErrClosed when over is closed. An empty name
// means "check all". The first hint is "check all", and no change after it is missed.
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

// Touch notifies all listeners that a space has changed. It does not wait for them.
func (hs *Hints) Touch(space string) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for l := range hs.all {
		l.touch(space)
	}
}

// Committed notifies all listeners of the spaces that a batch has changed.
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

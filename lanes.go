package thole

import (
	"maps"
	"slices"
	"sync"
)

// lanes does work on spaces, for each shard beside the work for the others, so
// that a shard that hangs holds no other up. Within a shard one piece of work
// comes after the other; what comes meanwhile waits and is done in one piece, with
// the spaces in which there was more to do than the last piece did.
type lanes struct {
	of   func(space string) int
	all  []lane
	work func(shard int, spaces []string) (rest []string)
}

type lane struct {
	mu      sync.Mutex
	waiting map[string]struct{}
	busy    bool // a goroutine is at it, and will look at waiting again
}

func newLanes(s *shards, work func(shard int, spaces []string) (rest []string)) *lanes {
	l := &lanes{of: s.of, all: make([]lane, len(s.batchers)), work: work}
	for i := range l.all {
		l.all[i].waiting = make(map[string]struct{})
	}
	return l
}

// do has the work done on the spaces, by goroutines of tasks, and does not wait.
// It is called by one of tasks.
func (l *lanes) do(tasks *sync.WaitGroup, spaces []string) {
	of := make([][]string, len(l.all))
	for _, name := range spaces {
		shard := l.of(name)
		of[shard] = append(of[shard], name)
	}
	for shard, names := range of {
		if len(names) > 0 && l.all[shard].add(names) {
			tasks.Go(func() {
				for names := l.all[shard].take(); len(names) > 0; names = l.all[shard].take() {
					l.all[shard].add(l.work(shard, names))
				}
			})
		}
	}
}

// add reports whether nobody is at it yet.
func (l *lane) add(names []string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		l.waiting[name] = struct{}{}
	}
	idle := !l.busy
	l.busy = true
	return idle
}

// take returns what waits; nothing ends the work.
func (l *lane) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := slices.Sorted(maps.Keys(l.waiting))
	clear(l.waiting)
	l.busy = len(names) > 0
	return names
}

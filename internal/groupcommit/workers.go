package groupcommit

import (
	"maps"
	"slices"
	"sync"
)

// Workers do work on spaces. Each shard has one of its own, so that a shard that hangs
// does not hold up the others. What comes to a shard while its worker is busy waits,
// and is done in one piece, together with the spaces that the last piece left over.
type Workers struct {
	shard func(space string) int
	all   []worker
	work  func(shard int, spaces []string) (rest []string)
}

type worker struct {
	mu      sync.Mutex
	waiting map[string]struct{}
	busy    bool // a goroutine is at it, and will look at waiting again
}

// Workers returns workers for the backend's shards. work returns the spaces in which
// there is more to do.
func (c *Committer) Workers(work func(shard int, spaces []string) (rest []string)) *Workers {
	ws := &Workers{shard: c.shard, all: make([]worker, len(c.batchers)), work: work}
	for i := range ws.all {
		ws.all[i].waiting = make(map[string]struct{})
	}
	return ws
}

// Do has the work done on the spaces, by goroutines of tasks, and does not wait. The
// caller is one of tasks.
func (ws *Workers) Do(tasks *sync.WaitGroup, spaces []string) {
	of := make([][]string, len(ws.all))
	for _, name := range spaces {
		shard := ws.shard(name)
		of[shard] = append(of[shard], name)
	}
	for shard, names := range of {
		w := &ws.all[shard]
		if len(names) > 0 && w.add(names) {
			tasks.Go(func() {
				for names := w.take(); len(names) > 0; names = w.take() {
					w.add(ws.work(shard, names))
				}
			})
		}
	}
}

// add reports whether nobody is at it yet.
func (w *worker) add(names []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		w.waiting[name] = struct{}{}
	}
	idle := !w.busy
	w.busy = true
	return idle
}

// take returns what waits; nothing ends the work.
func (w *worker) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := slices.Sorted(maps.Keys(w.waiting))
	clear(w.waiting)
	w.busy = len(names) > 0
	return names
}

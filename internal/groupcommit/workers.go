package groupcommit

import (
	"maps"
	"slices"
	"sync"
)

// Workers does work on spaces, with one worker for each shard, so that a shard that
// hangs does not hold up the others. Spaces that arrive while a shard's worker is busy
// wait. The worker then handles them in one call of work, together with the spaces that
// the last call returned.
type Workers struct {
	shard func(space string) int
	all   []worker
	work  func(shard int, spaces []string) (rest []string)
}

type worker struct {
	mu      sync.Mutex
	waiting map[string]struct{}
	busy    bool // a goroutine is working and will look at waiting again
}

// Workers returns workers for the backend's shards. The function work returns the
// spaces in which there is more to do.
func (c *Committer) Workers(work func(shard int, spaces []string) (rest []string)) *Workers {
	ws := &Workers{shard: c.shard, all: make([]worker, len(c.batchers)), work: work}
	for i := range ws.all {
		ws.all[i].waiting = make(map[string]struct{})
	}
	return ws
}

// Do starts the work on the spaces in goroutines of tasks and does not wait for it. The
// caller must be one of tasks.
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

// add adds names to waiting and marks the worker as busy. It reports whether the worker
// was idle.
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

// take returns the waiting names. If there are none, the worker is idle again.
func (w *worker) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := slices.Sorted(maps.Keys(w.waiting))
	clear(w.waiting)
	w.busy = len(names) > 0
	return names
}

package groupcommit

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/thole-dev/thole/journal"
)

// batcher writes the commits of one shard: one goroutine passes everything queued to
// one Backend.Commit; while that batch syncs, the next one fills.
type batcher struct {
	backend journal.Backend
	written func([]journal.Commit, []journal.Result, error) // see New
	ended   func()

	busy  atomic.Uint64 // the number of the batch that is being committed or for which written was not called yet; 0: none
	count uint64        // batches so far; used by run only

	mu     sync.Mutex
	queue  []*waiting
	closed bool

	wake chan struct{} // capacity 1: the queue has something, or closed is set
}

// Bounds of one batch, and so of the time that a commit waits for others.
const (
	maxBatchCommits = 1024
	maxBatchBytes   = 8 << 20
)

// waiting is a commit that waits for its result.
type waiting struct {
	ctx    context.Context
	commit journal.Commit
	size   int
	result journal.Result // Err is also set if the whole batch failed
	done   chan struct{}  // capacity 1: result is set
}

func (w *waiting) finish(r journal.Result) {
	w.result = r
	w.done <- struct{}{}
}

// enqueue queues commits without others between them.
func (b *batcher) enqueue(all ...*waiting) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return journal.ErrClosed
	}
	b.queue = append(b.queue, all...)
	b.mu.Unlock()
	b.rouse()
	return nil
}

func (b *batcher) rouse() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.rouse()
}

// run is the writer's loop. It ends when the batcher is closed and its queue is empty.
func (b *batcher) run() {
	var batch []*waiting
	var commits []journal.Commit
	for range b.wake {
		for {
			var closed bool
			batch, closed = b.take(batch[:0])
			if len(batch) == 0 {
				if closed {
					return
				}
				break
			}
			commits = commits[:0]
			for _, w := range batch {
				commits = append(commits, w.commit)
			}
			b.write(batch, commits)
			clear(batch)
			clear(commits)
			if len(batch) > 1 {
				runtime.Gosched() // callers that are ready to run join the next batch
			}
		}
	}
}

func (b *batcher) write(batch []*waiting, commits []journal.Commit) {
	b.count++
	b.busy.Store(b.count)
	results, err := b.backend.Commit(context.Background(), commits)
	if err == nil && len(results) != len(commits) {
		err = fmt.Errorf("the backend answered %d commits with %d results", len(commits), len(results))
	}
	b.tell(commits, results, err)
	b.busy.Store(0)
	b.ended()
	for i, w := range batch {
		if err != nil {
			w.finish(journal.Result{Err: err})
		} else {
			w.finish(results[i])
		}
	}
}

// tell calls written, separately for each commit that has an Err.
func (b *batcher) tell(commits []journal.Commit, results []journal.Result, err error) {
	if err != nil || !slices.ContainsFunc(results, func(r journal.Result) bool { return r.Err != nil }) {
		b.written(commits, results, err)
		return
	}
	var taken []journal.Commit
	var resultsOf []journal.Result
	for i := range commits {
		if results[i].Err != nil {
			b.written(commits[i:i+1], nil, results[i].Err)
			continue
		}
		taken, resultsOf = append(taken, commits[i]), append(resultsOf, results[i])
	}
	if len(taken) > 0 {
		b.written(taken, resultsOf, nil)
	}
}

// take moves the head of the queue into batch. It drops commits whose context has
// ended.
func (b *batcher) take(batch []*waiting) ([]*waiting, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	size, n := 0, 0
	for _, w := range b.queue {
		if len(batch) == maxBatchCommits || len(batch) > 0 && size+w.size > maxBatchBytes {
			break
		}
		n++
		if w.ctx.Err() != nil {
			w.finish(journal.Result{Err: context.Cause(w.ctx)})
			continue
		}
		size += w.size
		batch = append(batch, w)
	}
	rest := copy(b.queue, b.queue[n:])
	clear(b.queue[rest:])
	b.queue = b.queue[:rest]
	return batch, b.closed
}

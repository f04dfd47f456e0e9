package thole

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/thole-dev/thole/journal"
)

// batcher is group commit: one goroutine drains what is queued into one
// Backend.Commit; while that batch syncs, the next one fills.
type batcher struct {
	backend journal.Backend
	// written is called with the outcome of each batch before its callers hear
	// of it: results of what is durable, or an error.
	written func([]Commit, []Result, error)
	// ended is called after that, when busy is 0 again.
	ended func()

	busy  atomic.Uint64 // the number of the batch that is in the backend, or that written was not called for yet; 0: none
	count uint64        // batches so far; of run

	mu     sync.Mutex
	queue  []*pending
	closed bool

	wake chan struct{} // capacity 1: the queue has something, or closed is set
}

// Bounds of one batch. They bound how long a commit waits for its neighbours.
const (
	maxBatchCommits = 1024
	maxBatchBytes   = 8 << 20
)

// pending is a commit that waits for its acknowledgement.
type pending struct {
	ctx    context.Context
	commit Commit
	size   int
	result Result
	err    error
	done   chan struct{}
}

// outcome is what became of p, once done is closed. An error of the whole batch that
// it was written with is its own.
func (p *pending) outcome() Result {
	if p.err != nil {
		return Result{Err: p.err}
	}
	return p.result
}

func newBatcher(b journal.Backend, written func([]Commit, []Result, error), ended func()) *batcher {
	return &batcher{backend: b, written: written, ended: ended, wake: make(chan struct{}, 1)}
}

// commit queues c and waits. When ctx ends first, the commit may or may not
// happen.
func (b *batcher) commit(ctx context.Context, c Commit, size int) (Result, error) {
	p := &pending{ctx: ctx, commit: c, size: size, done: make(chan struct{})}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return Result{}, ErrClosed
	}
	b.queue = append(b.queue, p)
	b.mu.Unlock()
	b.signal()
	select {
	case <-p.done:
		r := p.outcome()
		if r.Err != nil {
			return Result{}, r.Err
		}
		return r, nil
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
}

func (b *batcher) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.signal()
}

// run is the writer. It ends when the batcher is closed and its queue empty.
func (b *batcher) run() {
	var batch []*pending
	var commits []Commit
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
			for _, p := range batch {
				commits = append(commits, p.commit)
			}
			b.write(batch, commits)
			clear(batch)
			clear(commits)
		}
	}
}

func (b *batcher) write(batch []*pending, commits []Commit) {
	b.count++
	b.busy.Store(b.count)
	results, err := b.backend.Commit(context.Background(), commits)
	if err == nil && len(results) != len(commits) {
		err = fmt.Errorf("thole: the backend answered %d commits with %d results", len(commits), len(results))
	}
	b.tell(commits, results, err)
	b.busy.Store(0)
	b.ended()
	for i, p := range batch {
		if err != nil {
			p.err = err
		} else {
			p.result = results[i]
		}
		close(p.done)
	}
}

// tell calls written; apart for the commits that their spaces could not take.
func (b *batcher) tell(commits []Commit, results []Result, err error) {
	if err != nil || !slices.ContainsFunc(results, func(r Result) bool { return r.Err != nil }) {
		b.written(commits, results, err)
		return
	}
	var taken []Commit
	var resultsOf []Result
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

// take moves the head of the queue into batch, leaving out what nobody waits
// for any more.
func (b *batcher) take(batch []*pending) ([]*pending, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	size, n := 0, 0
	for _, p := range b.queue {
		if len(batch) == maxBatchCommits || len(batch) > 0 && size+p.size > maxBatchBytes {
			break
		}
		n++
		if p.ctx.Err() != nil {
			p.err = context.Cause(p.ctx)
			close(p.done)
			continue
		}
		size += p.size
		batch = append(batch, p)
	}
	rest := copy(b.queue, b.queue[n:])
	clear(b.queue[rest:])
	b.queue = b.queue[:rest]
	return batch, b.closed
}

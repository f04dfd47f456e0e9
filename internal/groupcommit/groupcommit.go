// Package groupcommit writes the commits of many callers in batches: while a batch
// syncs, the next one fills. Each shard of the backend has batches of its own, so that
// no shard waits for, or fails with, another.
package groupcommit

import (
	"context"
	"fmt"
	"sync"

	"github.com/thole-dev/thole/journal"
)

// Committer is group commit over a backend. It is safe for concurrent use.
type Committer struct {
	shard    func(space string) int
	batchers []*batcher
	idle     sync.Pool // of *waiting, whose callers have their results
}

// New returns a Committer, which writes once [Committer.Start] is called.
//
// Before the callers of a batch hear of it, written is called with its commits and
// results, which are durable, or an error, after which it is unknown what was applied;
// one call at a time. ended is called after that, when [Committer.Busy] has changed.
func New(b journal.Backend, written func([]journal.Commit, []journal.Result, error), ended func()) *Committer {
	c := &Committer{shard: func(string) int { return 0 }}
	c.idle.New = func() any { return &waiting{done: make(chan struct{}, 1)} }
	n := 1
	if can := b.Capabilities(); can.Shard != nil {
		n, c.shard = can.Shards, can.Shard
	}
	var one sync.Mutex // of several batchers
	for range n {
		c.batchers = append(c.batchers, &batcher{
			backend: b, ended: ended, wake: make(chan struct{}, 1),
			written: func(batch []journal.Commit, results []journal.Result, err error) {
				one.Lock()
				defer one.Unlock()
				written(batch, results, err)
			},
		})
	}
	return c
}

// Commit queues a commit of about size bytes and waits for its result. When ctx ends
// first, the commit may or may not happen. After [Committer.Close] it is ErrClosed.
func (c *Committer) Commit(ctx context.Context, commit journal.Commit, size int) (journal.Result, error) {
	w := c.enlist(ctx, commit, size)
	if err := c.batchers[c.shard(commit.Space)].enqueue(w); err != nil {
		return journal.Result{}, err
	}
	r, ok := c.wait(ctx, w)
	switch {
	case !ok:
		return journal.Result{}, context.Cause(ctx)
	case r.Err != nil:
		return journal.Result{}, r.Err
	}
	return r, nil
}

// CommitAll queues commits, whose sizes are given, with nothing between them in any
// shard, and waits until each has its result. ErrClosed: none was applied. After
// another error, or when ctx ends, it is unknown which ones were.
func (c *Committer) CommitAll(ctx context.Context, commits []journal.Commit, sizes []int) ([]journal.Result, error) {
	all := make([]*waiting, len(commits))
	of := make([][]*waiting, len(c.batchers))
	for i := range commits {
		all[i] = c.enlist(ctx, commits[i], sizes[i])
		shard := c.shard(commits[i].Space)
		of[shard] = append(of[shard], all[i])
	}
	queued := 0
	for shard, b := range c.batchers {
		err := b.enqueue(of[shard]...)
		if err != nil && queued > 0 { // not ErrClosed: that says that nothing was applied
			err = fmt.Errorf("%w: the store closed while the batch was queued", journal.ErrUnavailable)
		}
		if err != nil {
			return nil, err
		}
		queued += len(of[shard])
	}
	results := make([]journal.Result, len(all))
	for i, w := range all {
		r, ok := c.wait(ctx, w)
		if !ok {
			return nil, context.Cause(ctx)
		}
		results[i] = r
	}
	return results, nil
}

func (c *Committer) enlist(ctx context.Context, commit journal.Commit, size int) *waiting {
	w := c.idle.Get().(*waiting)
	w.ctx, w.commit, w.size = ctx, commit, size
	return w
}

// wait returns the result of w, or false if ctx ends first; then a batcher may hold w
// still.
func (c *Committer) wait(ctx context.Context, w *waiting) (journal.Result, bool) {
	select {
	case <-w.done:
		r := w.result
		w.ctx, w.commit, w.result = nil, journal.Commit{}, journal.Result{}
		c.idle.Put(w)
		return r, true
	case <-ctx.Done():
		return journal.Result{}, false
	}
}

// Shard returns the shard of the backend that a space lives in.
func (c *Committer) Shard(space string) int { return c.shard(space) }

// Busy is the number of the batch in which a commit to the space may be in the backend
// already and not yet be known here; 0: there is none.
func (c *Committer) Busy(space string) uint64 { return c.batchers[c.shard(space)].busy.Load() }

// Start starts the writers as tasks. They end when the Committer is closed and its
// queues are empty.
func (c *Committer) Start(tasks *sync.WaitGroup) {
	for _, b := range c.batchers {
		tasks.Go(b.run)
	}
}

// Close ends the writers once everything that is queued is written.
func (c *Committer) Close() {
	for _, b := range c.batchers {
		b.close()
	}
}

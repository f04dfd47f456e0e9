// Package groupcommit writes the commits of many callers in batches: while one batch
// syncs, the next one fills. Each shard of the backend has its own batches, so that a
// slow or failing shard does not affect the others.
package groupcommit

import (
	"context"
	"fmt"
	"sync"

	"github.com/thole-dev/thole/journal"
)

// Committer does the group commit for a backend. It is safe for concurrent use.
type Committer struct {
	shard    func(space string) int
	batchers []*batcher
	idle     sync.Pool // of *waiting that are no longer used
}

// New returns a Committer, which begins to write when [Committer.Start] is called.
//
// Before the callers of a batch get their results, written is called with the batch's
// commits and results, which are durable, or with an error, after which it is unknown
// what was applied. There is one call of written at a time. After it, when
// [Committer.Busy] no longer returns the batch, ended is called.
func New(b journal.Backend, written func([]journal.Commit, []journal.Result, error), ended func()) *Committer {
	c := &Committer{shard: func(string) int { return 0 }}
	c.idle.New = func() any { return &waiting{done: make(chan struct{}, 1)} }
	n := 1
	if can := b.Capabilities(); can.Shard != nil {
		n, c.shard = can.Shards, can.Shard
	}
	var one sync.Mutex // serializes written across the batchers
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

// Commit queues a commit of about size bytes and waits for its result. If ctx ends
// first, it is unknown whether the commit will be applied. After [Committer.Close],
// Commit returns ErrClosed.
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

// CommitAll queues commits of the given sizes, in each shard without others between
// them, and waits for their results. After ErrClosed, none was applied. After another
// error, or if ctx ends, it is unknown which were applied.
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
		if err != nil && queued > 0 { // not ErrClosed, which means that nothing was applied
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

// wait returns the result of w, or false if ctx ends first; the batcher may then still
// use w.
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

// Shard returns the shard of the backend that has the space.
func (c *Committer) Shard(space string) int { return c.shard(space) }

// Busy returns the number of the batch of the space's shard that the backend may have
// committed without written having been called for it; 0: there is none.
func (c *Committer) Busy(space string) uint64 { return c.batchers[c.shard(space)].busy.Load() }

// Start starts the writers as tasks. They end when the Committer is closed and its
// queues are empty.
func (c *Committer) Start(tasks *sync.WaitGroup) {
	for _, b := range c.batchers {
		tasks.Go(b.run)
	}
}

// Close refuses further commits. The writers end when everything queued is written;
// Close does not wait for that.
func (c *Committer) Close() {
	for _, b := range c.batchers {
		b.close()
	}
}

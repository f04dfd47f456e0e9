package thole

import (
	"context"
	"fmt"
	"sync"

	"github.com/thole-dev/thole/journal"
)

// shards is group commit for a backend that has several shards: a batcher for each
// shard, so that none waits for, or fails with, another. Any other backend is
// one shard.
type shards struct {
	of       func(space string) int
	batchers []*batcher
}

// newShards calls written, one batch at a time, and ended as a batcher does.
func newShards(b journal.Backend, written func([]Commit, []Result, error), ended func()) *shards {
	s := &shards{of: func(string) int { return 0 }}
	n := 1
	if can := b.Capabilities(); can.Shard != nil {
		n, s.of = can.Shards, can.Shard
	}
	var one sync.Mutex // of several batchers
	for range n {
		s.batchers = append(s.batchers, newBatcher(b, func(batch []Commit, results []Result, err error) {
			one.Lock()
			defer one.Unlock()
			written(batch, results, err)
		}, ended))
	}
	return s
}

// commit is [batcher.commit] in the shard of c's space.
func (s *shards) commit(ctx context.Context, c Commit, size int) (Result, error) {
	return s.batchers[s.of(c.Space)].commit(ctx, c, size)
}

// busy is the number of the batch in which a commit of the space may be in the
// backend already and not yet be known here; 0: there is none.
func (s *shards) busy(space string) uint64 { return s.batchers[s.of(space)].busy.Load() }

// commitAll queues a batch, with nothing between in any shard, and waits until each of
// it has its outcome.
func (s *shards) commitAll(ctx context.Context, all []*pending) error {
	of := make([][]*pending, len(s.batchers))
	for _, p := range all {
		shard := s.of(p.commit.Space)
		of[shard] = append(of[shard], p)
	}
	queued := 0
	for shard, b := range s.batchers {
		err := b.queueAll(of[shard])
		if err != nil && queued > 0 { // not ErrClosed: that says that nothing was applied
			err = fmt.Errorf("%w: the store closed while the batch was queued", ErrUnavailable)
		}
		if err != nil {
			return err
		}
		queued += len(of[shard])
	}
	for _, p := range all {
		select {
		case <-p.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// run ends when the shards are closed and their queues empty.
func (s *shards) run() {
	var all sync.WaitGroup
	for _, b := range s.batchers {
		all.Go(b.run)
	}
	all.Wait()
}

func (s *shards) close() {
	for _, b := range s.batchers {
		b.close()
	}
}

// queueAll queues what belongs together.
func (b *batcher) queueAll(all []*pending) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	b.queue = append(b.queue, all...)
	b.signal()
	return nil
}

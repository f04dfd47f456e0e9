package thole

import (
	"context"
	"sync"
)

// contention makes updates that collide on a record run one after the other, in the
// order of arrival. It saves work and is not a lock: correctness depends on checks
// alone.
type contention struct {
	mu     sync.Mutex
	queues map[recordName]*queue
}

// queue is the queue of the updates that contend for one record.
type queue struct {
	front chan struct{} // capacity 1; Go serves senders on a channel first in, first out
	refs  int
}

// ticket is a place in a queue. It may be nil.
type ticket struct {
	contention *contention
	record     recordName
	queue      *queue
	first      bool // it is this ticket's turn
}

// join waits for its turn at the first contended record in seen. It returns nil at once
// if none is contended.
func (c *contention) join(ctx context.Context, space string, seen []sighting) *ticket {
	c.mu.Lock()
	if len(c.queues) > 0 {
		for _, s := range seen {
			if _, contended := c.queues[recordName{space, s.key}]; contended {
				c.mu.Unlock()
				return c.enter(ctx, space, s.key)
			}
		}
	}
	c.mu.Unlock()
	return nil
}

// enter queues for a record and waits for its turn, or until ctx ends.
func (c *contention) enter(ctx context.Context, space, key string) *ticket {
	record := recordName{space, key}
	c.mu.Lock()
	if c.queues == nil {
		c.queues = make(map[recordName]*queue)
	}
	q := c.queues[record]
	if q == nil {
		q = &queue{front: make(chan struct{}, 1)}
		c.queues[record] = q
	}
	q.refs++
	c.mu.Unlock()
	t := &ticket{contention: c, record: record, queue: q}
	select {
	case q.front <- struct{}{}:
		t.first = true
	case <-ctx.Done():
	}
	return t
}

// leave gives the turn to the next in the queue.
func (t *ticket) leave() {
	if t == nil {
		return
	}
	if t.first {
		<-t.queue.front
	}
	t.contention.mu.Lock()
	defer t.contention.mu.Unlock()
	if t.queue.refs--; t.queue.refs == 0 {
		delete(t.contention.queues, t.record)
	}
}

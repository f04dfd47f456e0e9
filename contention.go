package thole

import (
	"context"
	"sync"
)

// contention lets updates that keep colliding on one record go one after the other, in
// the order they came. It keeps them from wasting work and is no lock: only checks
// decide.
type contention struct {
	mu     sync.Mutex
	queues map[recordName]*queue
}

// queue is the updates that contend for one record.
type queue struct {
	front chan struct{} // capacity 1; waiters on a channel are first in, first out
	refs  int
}

// ticket is a place in a queue. A nil ticket is none.
type ticket struct {
	contention *contention
	record     recordName
	queue      *queue
	first      bool // and nobody else is
}

// join waits for its turn at the first of the records that others contend for, or
// returns nil at once if there is no contention for any.
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

// enter waits for its turn at a record, or until ctx ends.
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

// leave lets the next one go.
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

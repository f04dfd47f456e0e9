package thole

import (
	"context"
	"sync"
)

// turns lets updates that keep colliding on one record go one after the other,
// in the order they came. It is a courtesy that keeps contention from wasting
// work, not a lock: only checks decide.
type turns struct {
	mu sync.Mutex
	m  map[turnKey]*queue
}

type turnKey struct{ space, key string }

type queue struct {
	slot chan struct{} // capacity 1; waiters on a channel are first in, first out
	refs int
}

// turn is a place at the front of a queue. A nil turn is none.
type turn struct {
	turns *turns
	key   turnKey
	queue *queue
	held  bool
}

// join waits for a turn on the first of the records that others contend for, or
// returns nil at once if there is no contention on any.
func (t *turns) join(ctx context.Context, space string, seen []sighting) *turn {
	t.mu.Lock()
	if len(t.m) > 0 {
		for _, s := range seen {
			if _, busy := t.m[turnKey{space, s.key}]; busy {
				t.mu.Unlock()
				return t.take(ctx, space, s.key)
			}
		}
	}
	t.mu.Unlock()
	return nil
}

// take waits for a turn on key, or until ctx ends.
func (t *turns) take(ctx context.Context, space, key string) *turn {
	k := turnKey{space, key}
	t.mu.Lock()
	if t.m == nil {
		t.m = make(map[turnKey]*queue)
	}
	q := t.m[k]
	if q == nil {
		q = &queue{slot: make(chan struct{}, 1)}
		t.m[k] = q
	}
	q.refs++
	t.mu.Unlock()
	tu := &turn{turns: t, key: k, queue: q}
	select {
	case q.slot <- struct{}{}:
		tu.held = true
	case <-ctx.Done():
	}
	return tu
}

func (tu *turn) leave() {
	if tu == nil {
		return
	}
	if tu.held {
		<-tu.queue.slot
	}
	tu.turns.mu.Lock()
	defer tu.turns.mu.Unlock()
	if tu.queue.refs--; tu.queue.refs == 0 {
		delete(tu.turns.m, tu.key)
	}
}

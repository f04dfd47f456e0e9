package broadcast

import (
	"sync"

	"github.com/thole-dev/thole/journal"
)

// Bounds of a queue. When it is full, the oldest broadcasts are dropped.
const (
	maxQueued = 4 << 20 // bytes in the queue
	maxSlice  = 1 << 20 // bytes that take returns at once, unless one broadcast has more
)

// queue holds broadcasts for one receiver, so that a slow one does not hold up the
// senders.
type queue struct {
	mu    sync.Mutex
	list  []journal.Broadcast
	bytes int

	wake chan struct{} // capacity 1: list is not empty
}

// weight returns the approximate number of bytes that b takes in memory.
func weight(b *journal.Broadcast) int {
	return len(b.Origin) + len(b.Space) + b.Event.Size() + 16*len(b.Event.Refs) + 256
}

// put appends b without waiting. If the queue is full it drops the oldest broadcasts.
func (q *queue) put(b journal.Broadcast) {
	q.mu.Lock()
	q.list = append(q.list, b)
	q.bytes += weight(&b)
	for q.bytes > maxQueued {
		q.bytes -= weight(&q.list[0])
		q.list[0] = journal.Broadcast{}
		q.list = q.list[1:]
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take waits for broadcasts and returns some, in order, or nil if one of the channels
// is closed.
func (q *queue) take(done, over <-chan struct{}) []journal.Broadcast {
	for {
		q.mu.Lock()
		n, size := 0, 0
		for n < len(q.list) && (n == 0 || size+weight(&q.list[n]) <= maxSlice) {
			size += weight(&q.list[n])
			n++
		}
		slice := q.list[:n:n]
		q.list, q.bytes = q.list[n:], q.bytes-size
		q.mu.Unlock()
		if n > 0 {
			return slice
		}
		select {
		case <-q.wake:
		case <-done:
			return nil
		case <-over:
			return nil
		}
	}
}

package broadcast

import (
	"sync"

	"github.com/thole-dev/thole/journal"
)

// Bounds of a queue. The oldest broadcasts that do not fit are dropped.
const (
	maxQueued = 4 << 20 // bytes that wait for a receiver that does not keep up
	maxSlice  = 1 << 20 // bytes that go out at once, if more than one broadcast
)

// queue holds broadcasts for a receiver that takes them at its own speed.
type queue struct {
	mu    sync.Mutex
	list  []journal.Broadcast
	bytes int

	wake chan struct{} // capacity 1: list is not empty
}

// weight is about how many bytes b takes in memory.
func weight(b *journal.Broadcast) int {
	return len(b.Origin) + len(b.Space) + b.Event.Size() + 16*len(b.Event.Refs) + 256
}

// put never waits: the oldest make room.
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

// take waits for broadcasts and returns some, in order; none when one of the
// channels was closed.
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

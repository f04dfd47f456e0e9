package thole

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thole-dev/thole/journal"
)

// Bounds of passing broadcasts on. What does not fit is dropped, the oldest first.
const (
	maxQueuedBroadcasts = 4 << 20 // bytes that wait for one who does not keep up
	maxBroadcastSlice   = 1 << 20 // bytes that go out at once, if more than one broadcast
	maxHeldBroadcasts   = 1 << 20 // bytes that wait in a hub for events
	maxOrigin           = 1 << 10 // bytes of the names of all Stores on a broadcast's way

	sendTimeout    = 5 * time.Second
	receiveRetries = time.Second // how long until a Receive that ended is called again
)

// exchange passes broadcasts on between the watchers of a Store, the backend, if
// that is a Relay, and those who receive from [Store.Broadcasts].
type exchange struct {
	store  *Store
	origin string          // the Store's name
	over   <-chan struct{} // closed when the Store closes

	mu   sync.Mutex
	outs []*broadcastQueue // where broadcasts go; never changed, only replaced
}

func newExchange(s *Store, over <-chan struct{}) *exchange {
	return &exchange{store: s, origin: NewID("store"), over: over}
}

// SendBroadcasts takes in what other Stores, which use this one as their backend,
// broadcast. It reaches the watchers of this Store, other processes and whoever
// receives here, with its Origin and this Store's added. ErrInvalid: one of the
// broadcasts is malformed, the others were sent. ErrClosed once the Store is closed.
func (s *Store) SendBroadcasts(ctx context.Context, list []journal.Broadcast) error {
	return s.exchange.send(ctx, list)
}

// ReceiveBroadcasts calls hear with every broadcast, from anywhere, in the order of
// each sender, until ctx ends; then it returns nil. A receiver that does not keep up
// misses some. A Store passes over what bears its own name. ErrClosed once the Store
// is closed.
func (s *Store) ReceiveBroadcasts(ctx context.Context, hear func(journal.Broadcast)) error {
	return s.exchange.receive(ctx, hear)
}

func (x *exchange) send(ctx context.Context, broadcasts []journal.Broadcast) error {
	var malformed error
	for _, sig := range broadcasts {
		select {
		case <-x.over:
			return fmt.Errorf("send broadcasts: %w", ErrClosed)
		default:
		}
		err := journal.CheckAnySpaceName(sig.Space)
		if err == nil && len(sig.Origin)+len(x.origin) >= maxOrigin {
			err = invalidf("its origin has %d bytes", len(sig.Origin))
		}
		if err == nil {
			err = checkEvent(&sig.Event)
		}
		if err != nil {
			malformed = fmt.Errorf("send a broadcast to %.80q: %w", sig.Space, err)
			continue
		}
		sig.Origin = strings.TrimSpace(sig.Origin + " " + x.origin)
		sig.Event.Data, sig.Event.Refs = slices.Clone(sig.Event.Data), slices.Clone(sig.Event.Refs)
		x.show(sig)
		x.publish(sig, nil)
	}
	return malformed
}

func (x *exchange) receive(ctx context.Context, hear func(journal.Broadcast)) error {
	q := x.open()
	defer x.shut(q)
	for {
		slice := q.take(ctx.Done(), x.over)
		for _, sig := range slice {
			if ctx.Err() != nil {
				return nil
			}
			hear(sig)
		}
		switch {
		case slice != nil:
		case ctx.Err() != nil:
			return nil
		default:
			return fmt.Errorf("receive broadcasts: %w", ErrClosed)
		}
	}
}

// attach makes the backend one way out, and the way in.
func (x *exchange) attach(ctx context.Context, can journal.Capabilities, tasks *sync.WaitGroup) {
	q := x.open()
	tasks.Go(func() { x.drain(ctx, can.SendBroadcasts, q) })
	tasks.Go(func() { x.listen(ctx, can.ReceiveBroadcasts, q) })
}

// drain sends what is in q until ctx ends. A backend that hangs or fails costs the
// broadcasts that it was given.
func (x *exchange) drain(ctx context.Context, to func(context.Context, []journal.Broadcast) error, q *broadcastQueue) {
	for failing := false; ; {
		slice := q.take(ctx.Done(), nil)
		if slice == nil {
			return
		}
		limited, cancel := context.WithTimeout(ctx, sendTimeout)
		err := to(limited, slice)
		cancel()
		if err != nil && !failing && ctx.Err() == nil {
			x.store.log.Warn("broadcasts do not reach other processes", "error", err)
		}
		failing = err != nil
	}
}

// listen takes in what other processes send until ctx ends.
func (x *exchange) listen(ctx context.Context, from func(context.Context, func(journal.Broadcast)) error, own *broadcastQueue) {
	for ctx.Err() == nil {
		err := from(ctx, func(sig journal.Broadcast) {
			if strings.Contains(sig.Origin, x.origin) {
				return // it began here or came through here
			}
			x.show(sig)
			x.publish(sig, own)
		})
		if ctx.Err() == nil {
			x.store.log.Warn("broadcasts of other processes are not heard; will try again", "error", err)
			pause(ctx, receiveRetries)
		}
	}
}

// show delivers a broadcast of another Store to the watchers here.
func (x *exchange) show(sig journal.Broadcast) {
	if h := x.store.hubs.find(sig.Space); h != nil {
		sig.Event.Position = Position{}
		h.broadcast(&Delivery{Event: sig.Event})
	}
}

// publish queues a broadcast for everyone but from.
func (x *exchange) publish(sig journal.Broadcast, from *broadcastQueue) {
	x.mu.Lock()
	outs := x.outs
	x.mu.Unlock()
	for _, q := range outs {
		if q != from {
			q.put(sig)
		}
	}
}

// busy reports whether broadcasts go anywhere but to watchers.
func (x *exchange) busy() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.outs) > 0
}

func (x *exchange) open() *broadcastQueue {
	q := &broadcastQueue{wake: make(chan struct{}, 1)}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.outs = append(slices.Clone(x.outs), q)
	return q
}

func (x *exchange) shut(q *broadcastQueue) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.outs = slices.DeleteFunc(slices.Clone(x.outs), func(o *broadcastQueue) bool { return o == q })
}

// broadcastQueue holds broadcasts for one who takes them at their own speed.
type broadcastQueue struct {
	mu    sync.Mutex
	list  []journal.Broadcast
	bytes int

	wake chan struct{} // capacity 1: list is not empty
}

func broadcastWeight(sig *journal.Broadcast) int {
	return len(sig.Origin) + len(sig.Space) + sig.Event.Size() + 16*len(sig.Event.Refs) + 256
}

// put never waits: the oldest make room.
func (q *broadcastQueue) put(sig journal.Broadcast) {
	q.mu.Lock()
	q.list = append(q.list, sig)
	q.bytes += broadcastWeight(&sig)
	for q.bytes > maxQueuedBroadcasts {
		q.bytes -= broadcastWeight(&q.list[0])
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
func (q *broadcastQueue) take(done, over <-chan struct{}) []journal.Broadcast {
	for {
		q.mu.Lock()
		n, size := 0, 0
		for n < len(q.list) && (n == 0 || size+broadcastWeight(&q.list[n]) <= maxBroadcastSlice) {
			size += broadcastWeight(&q.list[n])
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

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

// Bounds of passing signals on. What does not fit is dropped, the oldest first.
const (
	maxQueuedSignals = 4 << 20 // bytes that wait for one who does not keep up
	maxSignalSlice   = 1 << 20 // bytes that go out at once, if more than one signal
	maxHeldSignals   = 1 << 20 // bytes that wait in a hub for events
	maxOrigin        = 1 << 10 // bytes of the names of all Stores on a signal's way

	sendTimeout    = 5 * time.Second
	receiveRetries = time.Second // how long until a Receive that ended is called again
)

// exchange passes signals on between the watchers of a Store, the backend, if
// that is a Relay, and those who receive from [Store.Signals].
type exchange struct {
	store  *Store
	origin string          // the Store's name
	over   <-chan struct{} // closed when the Store closes

	mu   sync.Mutex
	outs []*signalQueue // where signals go; never changed, only replaced
}

func newExchange(s *Store, over <-chan struct{}) *exchange {
	return &exchange{store: s, origin: NewID("store"), over: over}
}

// Signals returns the way by which other Stores share this one's signals, for a
// server that offers it to them. What is sent reaches the watchers of this
// Store, other processes and whoever receives here, with its Origin and this
// Store's added; ErrInvalid: one of the signals is malformed, the others were
// sent. What is received is every signal, from anywhere, in the order of
// each sender; who does not keep up misses some. A Store passes over what bears
// its own name. Both are ErrClosed once the Store is closed.
func (s *Store) Signals() journal.Relay { return s.exchange }

// Send implements [Relay].
func (x *exchange) Send(ctx context.Context, signals []journal.Signal) error {
	var malformed error
	for _, sig := range signals {
		select {
		case <-x.over:
			return fmt.Errorf("send signals: %w", ErrClosed)
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
			malformed = fmt.Errorf("send a signal to %.80q: %w", sig.Space, err)
			continue
		}
		sig.Origin = strings.TrimSpace(sig.Origin + " " + x.origin)
		sig.Event.Data, sig.Event.Refs = slices.Clone(sig.Event.Data), slices.Clone(sig.Event.Refs)
		x.show(sig)
		x.publish(sig, nil)
	}
	return malformed
}

// Receive implements [Relay].
func (x *exchange) Receive(ctx context.Context, hear func(journal.Signal)) error {
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
			return fmt.Errorf("receive signals: %w", ErrClosed)
		}
	}
}

// attach makes the backend's relay one way out, and the way in.
func (x *exchange) attach(ctx context.Context, r journal.Relay, tasks *sync.WaitGroup) {
	q := x.open()
	tasks.Go(func() { x.drain(ctx, r, q) })
	tasks.Go(func() { x.listen(ctx, r, q) })
}

// drain sends what is in q until ctx ends. A relay that hangs or fails costs the
// signals that it was given.
func (x *exchange) drain(ctx context.Context, to journal.Relay, q *signalQueue) {
	for failing := false; ; {
		slice := q.take(ctx.Done(), nil)
		if slice == nil {
			return
		}
		limited, cancel := context.WithTimeout(ctx, sendTimeout)
		err := to.Send(limited, slice)
		cancel()
		if err != nil && !failing && ctx.Err() == nil {
			x.store.log.Warn("signals do not reach other processes", "error", err)
		}
		failing = err != nil
	}
}

// listen takes in what other processes send until ctx ends.
func (x *exchange) listen(ctx context.Context, from journal.Relay, own *signalQueue) {
	for ctx.Err() == nil {
		err := from.Receive(ctx, func(sig journal.Signal) {
			if strings.Contains(sig.Origin, x.origin) {
				return // it began here or came through here
			}
			x.show(sig)
			x.publish(sig, own)
		})
		if ctx.Err() == nil {
			x.store.log.Warn("signals of other processes are not heard; will try again", "error", err)
			pause(ctx, receiveRetries)
		}
	}
}

// show delivers a signal of another Store to the watchers here.
func (x *exchange) show(sig journal.Signal) {
	if h := x.store.hubs.find(sig.Space); h != nil {
		sig.Event.Position = Position{}
		h.signal(&Delivery{Event: sig.Event})
	}
}

// publish queues a signal for everyone but from.
func (x *exchange) publish(sig journal.Signal, from *signalQueue) {
	x.mu.Lock()
	outs := x.outs
	x.mu.Unlock()
	for _, q := range outs {
		if q != from {
			q.put(sig)
		}
	}
}

// busy reports whether signals go anywhere but to watchers.
func (x *exchange) busy() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.outs) > 0
}

func (x *exchange) open() *signalQueue {
	q := &signalQueue{wake: make(chan struct{}, 1)}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.outs = append(slices.Clone(x.outs), q)
	return q
}

func (x *exchange) shut(q *signalQueue) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.outs = slices.DeleteFunc(slices.Clone(x.outs), func(o *signalQueue) bool { return o == q })
}

// signalQueue holds signals for one who takes them at their own speed.
type signalQueue struct {
	mu    sync.Mutex
	list  []journal.Signal
	bytes int

	wake chan struct{} // capacity 1: list is not empty
}

func signalWeight(sig *journal.Signal) int {
	return len(sig.Origin) + len(sig.Space) + sig.Event.Size() + 16*len(sig.Event.Refs) + 256
}

// put never waits: the oldest make room.
func (q *signalQueue) put(sig journal.Signal) {
	q.mu.Lock()
	q.list = append(q.list, sig)
	q.bytes += signalWeight(&sig)
	for q.bytes > maxQueuedSignals {
		q.bytes -= signalWeight(&q.list[0])
		q.list[0] = journal.Signal{}
		q.list = q.list[1:]
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take waits for signals and returns some, in order; none when one of the
// channels was closed.
func (q *signalQueue) take(done, over <-chan struct{}) []journal.Signal {
	for {
		q.mu.Lock()
		n, size := 0, 0
		for n < len(q.list) && (n == 0 || size+signalWeight(&q.list[n]) <= maxSignalSlice) {
			size += signalWeight(&q.list[n])
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

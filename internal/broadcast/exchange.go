// Package broadcast forwards live-only messages between the watchers of a Store, the
// other processes on its backend, and the Stores that use this one as their backend.
package broadcast

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thole-dev/thole/journal"
)

const (
	maxOrigin   = 1 << 10         // bytes of a broadcast's Origin: the names of the Stores it has passed
	sendTimeout = 5 * time.Second // limit of one call of SendBroadcasts
	retryPause  = time.Second     // before receiving is tried again
)

// Exchange receives and sends the broadcasts of a Store. It is safe for concurrent use.
type Exchange struct {
	origin  string          // the Store's name
	over    <-chan struct{} // closed when the Store closes
	check   func(*journal.Broadcast) error
	deliver func(space string, e journal.Event)
	log     *slog.Logger

	mu   sync.Mutex
	outs []*queue // where broadcasts are sent; the slice is replaced, never changed
}

// New returns an Exchange that ends when over is closed. The function check validates a
// broadcast of another Store; deliver hands one to the watchers here.
func New(over <-chan struct{}, check func(*journal.Broadcast) error, deliver func(space string, e journal.Event), log *slog.Logger) *Exchange {
	return &Exchange{origin: journal.NewID("store"), over: over, check: check, deliver: deliver, log: log}
}

// Publish sends a broadcast of this Store to other processes and receivers, but not to
// the watchers here.
func (x *Exchange) Publish(space string, e journal.Event) {
	x.publish(journal.Broadcast{Origin: x.origin, Space: space, Event: e}, nil)
}

// Send accepts broadcasts of Stores that use this one as their backend. It adds the
// Store's name to their Origin and sends them to the watchers here, other processes and
// receivers. ErrInvalid: one of them is malformed; the others were sent. ErrClosed: the
// Store is closed.
func (x *Exchange) Send(ctx context.Context, list []journal.Broadcast) error {
	var malformed error
	for _, b := range list {
		select {
		case <-x.over:
			return fmt.Errorf("send broadcasts: %w", journal.ErrClosed)
		default:
		}
		err := x.check(&b)
		if err == nil && len(b.Origin)+len(x.origin) >= maxOrigin {
			err = fmt.Errorf("%w: its origin has %d bytes", journal.ErrInvalid, len(b.Origin))
		}
		if err != nil {
			malformed = fmt.Errorf("send a broadcast to %.80q: %w", b.Space, err)
			continue
		}
		b.Origin = strings.TrimSpace(b.Origin + " " + x.origin)
		b.Event.Data, b.Event.Refs = slices.Clone(b.Event.Data), slices.Clone(b.Event.Refs)
		x.show(b)
		x.publish(b, nil)
	}
	return malformed
}

// Receive calls hear with every broadcast, one at a time and in the order of each
// sender. It returns nil when ctx ends and ErrClosed when the Store is closed. A
// receiver that does not keep up misses some.
func (x *Exchange) Receive(ctx context.Context, hear func(journal.Broadcast)) error {
	q := x.open()
	defer x.shut(q)
	for {
		slice := q.take(ctx.Done(), x.over)
		for _, b := range slice {
			if ctx.Err() != nil {
				return nil
			}
			hear(b)
		}
		switch {
		case slice != nil:
		case ctx.Err() != nil:
			return nil
		default:
			return fmt.Errorf("receive broadcasts: %w", journal.ErrClosed)
		}
	}
}

// Attach starts sending to the backend and receiving from it, as tasks that end with
// ctx.
func (x *Exchange) Attach(ctx context.Context, can journal.Capabilities, tasks *sync.WaitGroup) {
	q := x.open()
	tasks.Go(func() { x.drain(ctx, can.SendBroadcasts, q) })
	tasks.Go(func() { x.listen(ctx, can.ReceiveBroadcasts, q) })
}

// drain sends the broadcasts in q until ctx ends. If the backend hangs or fails, the
// broadcasts of that call are lost.
func (x *Exchange) drain(ctx context.Context, to func(context.Context, []journal.Broadcast) error, q *queue) {
	for failing := false; ; {
		slice := q.take(ctx.Done(), nil)
		if slice == nil {
			return
		}
		limited, cancel := context.WithTimeout(ctx, sendTimeout)
		err := to(limited, slice)
		cancel()
		if err != nil && !failing && ctx.Err() == nil {
			x.log.Warn("broadcasts do not reach other processes", "error", err)
		}
		failing = err != nil
	}
}

// listen receives broadcasts from the backend until ctx ends and passes them to
// everyone but the backend.
func (x *Exchange) listen(ctx context.Context, from func(context.Context, func(journal.Broadcast)) error, own *queue) {
	for ctx.Err() == nil {
		err := from(ctx, func(b journal.Broadcast) {
			if strings.Contains(b.Origin, x.origin) {
				return // it has been here before
			}
			x.show(b)
			x.publish(b, own)
		})
		if ctx.Err() == nil {
			x.log.Warn("broadcasts of other processes are not heard; will try again", "error", err)
			select {
			case <-time.After(retryPause):
			case <-ctx.Done():
			}
		}
	}
}

// show delivers a broadcast of another Store to the watchers here.
func (x *Exchange) show(b journal.Broadcast) {
	b.Event.Position = journal.Position{}
	x.deliver(b.Space, b.Event)
}

// publish adds a broadcast to all queues but from.
func (x *Exchange) publish(b journal.Broadcast, from *queue) {
	x.mu.Lock()
	outs := x.outs
	x.mu.Unlock()
	for _, q := range outs {
		if q != from {
			q.put(b)
		}
	}
}

// Busy reports whether there is anyone to publish to.
func (x *Exchange) Busy() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.outs) > 0
}

func (x *Exchange) open() *queue {
	q := &queue{wake: make(chan struct{}, 1)}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.outs = append(slices.Clone(x.outs), q)
	return q
}

func (x *Exchange) shut(q *queue) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.outs = slices.DeleteFunc(slices.Clone(x.outs), func(o *queue) bool { return o == q })
}

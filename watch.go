package thole

import (
	"context"
	"errors"

	"github.com/thole-dev/thole/internal/fanout"
	"github.com/thole-dev/thole/journal"
)

// WatchOptions say where a watch begins and what it lets through. The zero
// value delivers everything from now on.
type WatchOptions struct {
	After   Position // resume after this position
	Oldest  bool     // begin with the oldest event that is kept; After is then ignored
	Streams []string // only these; "a/*" matches every stream below a/. Empty: all
	Types   []string // only these; "noun.*" matches any verb. Empty: all
	Durable bool     // no broadcasts
}

// Watch is a cursor in motion. It holds a place, not a queue: a slow reader
// costs no memory, is caught up from the journal and misses no event (it may
// miss broadcasts). A Watch is for one goroutine.
type Watch struct{ cursor *fanout.Cursor }

// Watch begins to watch the space. A cursor that cannot be resumed is
// *TrimmedError. Close the watch when done.
func (sp *Space) Watch(ctx context.Context, opts *WatchOptions) (*Watch, error) {
	if sp.err != nil {
		return nil, sp.err
	}
	var o WatchOptions
	if opts != nil {
		o = *opts
	}
	cursor, err := sp.store.fanout.Watch(ctx, sp.name, fanout.Options(o))
	if err != nil {
		return nil, err
	}
	return &Watch{cursor}, nil
}

// source is where watches get their events.
func (s *Store) source() fanout.Source {
	return fanout.Source{
		Head: func(ctx context.Context, space string) (Head, error) { return s.Space(space).Head(ctx) },
		Read: func(ctx context.Context, space string, q ReadQuery) (Page, error) { return s.Space(space).Read(ctx, q) },
		Heads: func(ctx context.Context, spaces []string) ([]Head, []string, error) {
			heads, err := s.Heads(ctx, spaces...)
			return heads, damaged(err), reached(err)
		},
		Erased: func(ctx context.Context, space string) (Position, error) { return s.Space(space).erased(ctx) },
		Busy:   func(space string) uint64 { return s.commits.Busy(space) },
	}
}

// Position returns the place up to which everything that matches was handed
// out. A new watch with After set to it goes on without a gap.
func (w *Watch) Position() Position { return w.cursor.Position() }

// Next waits for deliveries and returns at least one, in journal order. A broadcast
// comes after every event that was acknowledged, through any process, before it was
// sent. The slice is valid until the next call. Errors: ctx's, ErrClosed when the
// store or the watch was closed, *TrimmedError when the place was purged or the space
// was changed by something else than commits. Then read the state anew; the next
// call goes on with what there is behind the place, or with what comes if the
// place is gone.
func (w *Watch) Next(ctx context.Context) ([]*Delivery, error) { return w.cursor.Next(ctx) }

// Close ends the watch. It is idempotent.
func (w *Watch) Close() { w.cursor.Close() }

// Watchers returns how many watches the space has in this process.
func (sp *Space) Watchers() int { return sp.store.fanout.Watchers(sp.name) }

// Subscribe watches the space from now on and calls handle, from one goroutine
// and in order, until the returned function is called, which waits for the last
// call to end. Closing the Store waits for it too, so handle must not do either.
// A place that is trimmed is logged, and the subscription goes on; to know of it,
// and for a cursor of one's own, use Watch.
func (sp *Space) Subscribe(ctx context.Context, opts *WatchOptions, handle func(*Delivery)) (unsubscribe func(), err error) {
	w, err := sp.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	sp.store.tasks.Go(func() {
		defer close(ended)
		defer w.Close()
		for {
			batch, err := w.Next(ctx)
			if errors.Is(err, ErrTrimmed) {
				sp.store.log.Warn("subscription was trimmed and goes on", "space", sp.name, "error", err)
				continue
			}
			if err != nil {
				if ctx.Err() == nil && !errors.Is(err, ErrClosed) {
					sp.store.log.Warn("subscription ended", "space", sp.name, "error", err)
				}
				return
			}
			for _, d := range batch {
				handle(d)
			}
		}
	})
	return func() { cancel(); <-ended }, nil
}

// Broadcast sends a live-only message to whoever watches the space: through this
// process and, when the backend carries broadcasts, through others. It is never stored,
// does not wait, and nothing may depend on its arrival. Watchers get it after
// every event of the space that was acknowledged before the call.
func (sp *Space) Broadcast(stream, typ string, data any) error {
	if sp.err != nil {
		return sp.err
	}
	watched, carried := sp.Watchers() > 0, sp.store.exchange.Busy()
	if !watched && !carried {
		return nil
	}
	raw, err := marshal(data)
	if err != nil {
		return err
	}
	e := Event{Stream: stream, Type: typ, Time: sp.store.Now(), Actor: sp.actor, Cause: sp.cause, Data: raw}
	if err := checkEvent(&e); err != nil {
		return err
	}
	if watched {
		sp.store.fanout.Broadcast(sp.name, e)
	}
	if carried {
		sp.store.exchange.Publish(sp.name, e)
	}
	return nil
}

// checkBroadcast returns what is wrong with a broadcast of another Store.
func checkBroadcast(b *journal.Broadcast) error {
	if err := journal.CheckAnySpaceName(b.Space); err != nil {
		return err
	}
	return checkEvent(&b.Event)
}

// SendBroadcasts takes in what other Stores, which use this one as their backend,
// broadcast. It reaches the watchers of this Store, other processes and whoever
// receives here, with its Origin and this Store's added. ErrInvalid: one of the
// broadcasts is malformed, the others were sent. ErrClosed once the Store is closed.
func (s *Store) SendBroadcasts(ctx context.Context, list []journal.Broadcast) error {
	return s.exchange.Send(ctx, list)
}

// ReceiveBroadcasts calls hear with every broadcast, from anywhere, in the order of
// each sender, until ctx ends; then it returns nil. A receiver that does not keep up
// misses some. A Store passes over what bears its own name. ErrClosed once the Store
// is closed.
func (s *Store) ReceiveBroadcasts(ctx context.Context, hear func(journal.Broadcast)) error {
	return s.exchange.Receive(ctx, hear)
}

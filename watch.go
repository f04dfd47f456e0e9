package thole

import (
	"context"
	"errors"

	"github.com/thole-dev/thole/internal/fanout"
	"github.com/thole-dev/thole/journal"
)

// WatchOptions say where a watch begins and what it delivers. The zero value delivers
// everything from now on.
type WatchOptions struct {
	After   Position // resume after this position
	Oldest  bool     // begin with the oldest event that is kept; After is then ignored
	Streams []string // only these streams; "a/*" matches every stream below a/. Empty: all
	Types   []string // only these types; "noun.*" matches any verb. Empty: all
	Durable bool     // no broadcasts
}

// Watch delivers the events of a space as they are committed. It has a position, not a
// queue: a slow reader takes no memory, catches up from the journal and misses no
// event, though it may miss broadcasts. A Watch must be used by one goroutine at a
// time.
type Watch struct{ cursor *fanout.Cursor }

// Watch starts a watch of the space. It returns *TrimmedError if opts.After cannot be
// resumed. The caller must close the Watch.
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

// source returns the Source from which watches get their events.
func (s *Store) source() fanout.Source {
	return fanout.Source{
		Head: func(ctx context.Context, space string) (Head, error) { return s.Space(space).Head(ctx) },
		Read: func(ctx context.Context, space string, q ReadQuery) (Page, error) { return s.Space(space).Read(ctx, q) },
		Heads: func(ctx context.Context, spaces []string) ([]Head, []string, error) {
			heads, err := s.Heads(ctx, spaces...)
			return heads, damaged(err), reached(err)
		},
		Erased: func(ctx context.Context, space string) (Position, error) { return s.Space(space).erased(ctx) },
		Lift:   s.concepts.lift,
		Busy:   func(space string) uint64 { return s.commits.Busy(space) },
	}
}

// Position returns the position up to which everything that matches has been delivered.
// A new watch with After set to it continues without a gap.
func (w *Watch) Position() Position { return w.cursor.Position() }

// Next waits for deliveries and returns at least one, in journal order. A broadcast
// comes after every event that was acknowledged, by any process, before it was sent.
// The slice is valid until the next call. Errors: ctx's; ErrClosed if the Store or the
// watch was closed; *TrimmedError if the watch's position was purged or something other
// than a commit changed the space. After a *TrimmedError, read the state again. The
// next call then continues after the watch's position, or, if that was purged, with new
// events.
func (w *Watch) Next(ctx context.Context) ([]*Delivery, error) { return w.cursor.Next(ctx) }

// Close ends the watch. It is idempotent.
func (w *Watch) Close() { w.cursor.Close() }

// Watchers returns how many watches the space has in this process.
func (sp *Space) Watchers() int { return sp.store.fanout.Watchers(sp.name) }

// Subscribe watches the space from now on and calls handle with each delivery, in order
// and from one goroutine, until unsubscribe is called. Both unsubscribe and closing the
// Store wait until handle has returned, so handle must call neither. A *TrimmedError is
// logged and the subscription continues; to handle it, use Watch.
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

// Broadcast sends a live-only message to the watchers of the space in this process and,
// if the backend carries broadcasts, in others. It does not wait. The message is never
// stored and may be lost. Watchers get it after every event of the space that was
// acknowledged before the call.
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

// checkBroadcast validates a broadcast of another Store.
func checkBroadcast(b *journal.Broadcast) error {
	if err := journal.CheckAnySpaceName(b.Space); err != nil {
		return err
	}
	return checkEvent(&b.Event)
}

// SendBroadcasts accepts broadcasts of other Stores that use this one as their backend.
// It adds this Store to their Origin and passes them to the watchers here, to other
// processes and to the callers of ReceiveBroadcasts. ErrInvalid: one broadcast is
// malformed; the others were sent. ErrClosed: the Store is closed.
func (s *Store) SendBroadcasts(ctx context.Context, list []journal.Broadcast) error {
	return s.exchange.Send(ctx, list)
}

// ReceiveBroadcasts calls hear with every broadcast, from any source and in the order
// of each sender, until ctx ends; then it returns nil. A receiver that does not keep up
// misses some. A Store that receives a broadcast with itself in Origin ignores it.
// ErrClosed: the Store is closed.
func (s *Store) ReceiveBroadcasts(ctx context.Context, hear func(journal.Broadcast)) error {
	return s.exchange.Receive(ctx, hear)
}

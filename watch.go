package thole

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/thole-dev/thole/journal"
)

// Delivery is what a watch hands out: a durable event, or a broadcast, which has
// no position. It is shared by all watchers and must not be changed.
type Delivery struct {
	Event
	nth     uint64 // of a broadcast: how many came to the hub before it, and itself
	encoded atomic.Pointer[[]byte]
}

// IsBroadcast reports whether d is live only.
func (d *Delivery) IsBroadcast() bool { return d.Position.IsZero() }

// Encoded returns encode(d), computed once for all watchers of d: there must be
// only one kind of encode in a program.
func (d *Delivery) Encoded(encode func(*Delivery) []byte) []byte {
	if b := d.encoded.Load(); b != nil {
		return *b
	}
	b := encode(d)
	d.encoded.Store(&b)
	return b
}

// WatchOptions say where a watch begins and what it lets through. The zero
// value delivers everything from now on.
type WatchOptions struct {
	After   Position // resume after this position
	Oldest  bool     // begin with the oldest event that is kept; After is then ignored
	Streams []string // only these; "a/*" matches every stream below a/. Empty: all
	Types   []string // only these; "noun.*" matches any verb. Empty: all
	Durable bool     // no broadcasts
}

func (o *WatchOptions) match(d *Delivery) bool {
	if o.Durable && d.IsBroadcast() {
		return false
	}
	return matchAny(o.Streams, d.Stream) && matchAny(o.Types, d.Type)
}

// matchAny reports whether name is one of patterns, or there are none. A
// pattern that ends in * matches what begins like it.
func matchAny(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		prefix, wild := strings.CutSuffix(p, "*")
		return p == name || wild && strings.HasPrefix(name, prefix)
	})
}

// Watch is a cursor in motion. It holds a place, not a queue: a slow reader
// costs no memory, is caught up from the journal and misses no event (it may
// miss broadcasts). A Watch is for one goroutine.
type Watch struct {
	sp   *Space
	hub  *hub
	opts WatchOptions
	pos  Position // everything up to here was delivered or filtered out
	seen string   // the epoch up to which the reader knows what was adopted
	era  int      // of the hub, when pos was found to be resumable
	live bool     // reading from the ring, not from the journal
	done bool

	next  uint64      // index in the hub's ring; valid while live
	since uint64      // how many broadcasts of the hub came before this watch
	batch []*Delivery // what Next returned last
}

// Watch begins to watch the space. A cursor that cannot be resumed is
// *TrimmedError. Close the watch when done.
func (sp *Space) Watch(ctx context.Context, opts *WatchOptions) (*Watch, error) {
	w := &Watch{sp: sp}
	if opts != nil {
		w.opts = *opts
	}
	if sp.err != nil {
		return nil, sp.err
	}
	// Attach before asking where the space is, so that nothing falls between.
	hub, err := sp.store.hubs.attach(sp)
	if err != nil {
		return nil, err
	}
	w.hub = hub
	if err := hub.forget(ctx); err != nil {
		w.Close()
		return nil, err
	}
	at := hub.place()
	head, err := sp.Head(ctx)
	for err == nil && at.gone(head) {
		sp.store.hubs.reset(sp.name)
		at = hub.place()
		head, err = sp.Head(ctx)
	}
	w.era, w.since = at.era, at.broadcasts
	switch {
	case err != nil:
	case w.opts.Oldest:
	case w.opts.After.IsZero():
		w.pos = head.Last
	default:
		w.pos = w.opts.After
		err = head.Resume(w.pos)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	w.seen = head.Last.Epoch
	hub.begin(head, at.era)
	return w, nil
}

// Position returns the place up to which everything that matches was handed
// out. A new watch with After set to it goes on without a gap.
func (w *Watch) Position() Position { return w.pos }

// Next waits for deliveries and returns at least one, in journal order. A broadcast
// comes after every event that was acknowledged, through any process, before the
// broadcast was sent. The slice is valid until the next call. Errors: ctx's,
// ErrClosed when the store
// or the watch was closed, *TrimmedError when the place was purged or the space
// was changed by something else than commits. Then read the state anew; the next
// call goes on with what there is behind the place, or with what comes if the
// place is gone.
func (w *Watch) Next(ctx context.Context) ([]*Delivery, error) {
	for {
		if w.done {
			return nil, ErrClosed
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var out []*Delivery
		var changed <-chan struct{}
		var err error
		if w.live {
			out, changed, err = w.hub.take(w)
		} else {
			out, err = w.fromJournal(ctx)
		}
		if err != nil {
			return nil, err
		}
		if len(out) > 0 {
			return out, nil
		}
		if changed == nil {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// fromJournal reads the next page after the watch's place, or joins the ring if
// that reaches back to it.
func (w *Watch) fromJournal(ctx context.Context) ([]*Delivery, error) {
	known := w.hub.place()
	if !known.begun || w.era != known.era {
		head, err := w.sp.Head(ctx)
		if err == nil {
			err = w.resume(head)
		}
		if err != nil {
			return nil, err
		}
		w.hub.begin(head, known.era)
		w.era = known.era
	}
	if w.hub.join(w) {
		return nil, nil
	}
	q := ReadQuery{After: w.pos, Limit: 256}
	if len(w.opts.Streams) == 1 && !strings.HasSuffix(w.opts.Streams[0], "*") {
		q.Stream = w.opts.Streams[0]
	}
	page, err := w.sp.Read(ctx, q)
	if err != nil {
		return nil, w.trimmed(err)
	}
	reached := page.Next
	if n := len(page.Events); n > 0 && page.Events[n-1].Position.Compare(reached) > 0 {
		reached = page.Events[n-1].Position
	} else if n == 0 && reached.IsZero() {
		// Nothing that matches was committed up to where the hub knew the
		// journal before the read.
		reached = known.head
	}
	if reached.Epoch > w.seen { // which began since the head was read: it may be an adopted one
		w.era = -1
		return nil, nil
	}
	out := make([]*Delivery, 0, len(page.Events))
	for _, e := range page.Events {
		if d := (&Delivery{Event: e}); w.opts.match(d) {
			out = append(out, d)
		}
	}
	if reached.Compare(w.pos) > 0 {
		w.pos = reached
	}
	return out, nil
}

// resume reports whether the reader can go on from the watch's place. That
// something was adopted meanwhile is said once, and nothing to who read nothing.
func (w *Watch) resume(head Head) error {
	if err := head.Resume(w.pos); err != nil {
		return w.trimmed(err)
	}
	adopted := head.Adopted() > w.seen
	w.seen = head.Last.Epoch
	if !adopted || w.pos.IsZero() {
		return nil
	}
	return &TrimmedError{Space: head.Space, Cursor: w.pos, Oldest: head.Oldest, Last: head.Last, Adopted: true,
		Reason: "it was changed by something else than commits, and that was adopted"}
}

// trimmed moves the place to where a reader goes on whose place is gone.
func (w *Watch) trimmed(err error) error {
	var t *TrimmedError
	if errors.As(err, &t) {
		w.pos, w.seen = t.Last, t.Last.Epoch
	}
	return err
}

// Close ends the watch. It is idempotent.
func (w *Watch) Close() {
	if !w.done {
		w.done = true
		w.sp.store.hubs.detach(w.hub)
	}
}

// Watchers returns how many watches the space has in this process.
func (sp *Space) Watchers() int { return sp.store.hubs.count(sp.name) }

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
	hub, relayed := sp.store.hubs.find(sp.name), sp.store.exchange.busy()
	if hub == nil && !relayed {
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
	if hub != nil {
		hub.broadcast(&Delivery{Event: e})
	}
	if relayed {
		sp.store.exchange.publish(journal.Broadcast{Origin: sp.store.exchange.origin, Space: sp.name, Event: e}, nil)
	}
	return nil
}

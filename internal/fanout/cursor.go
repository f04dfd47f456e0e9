package fanout

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/thole-dev/thole/journal"
)

// Options say where a cursor begins and what it delivers. The zero value delivers
// everything from now on.
type Options struct {
	After   journal.Position // begin after this position
	Oldest  bool             // begin with the oldest event that is kept; After is then ignored
	Streams []string         // only these streams; "a/*" matches every stream below a/. Empty: all
	Types   []string         // only these types; "noun.*" matches any verb. Empty: all
	Durable bool             // no broadcasts
}

func (o *Options) match(d *journal.Delivery) bool {
	if o.Durable && d.IsBroadcast() {
		return false
	}
	return matchAny(o.Streams, d.Stream) && matchAny(o.Types, d.Type)
}

// matchAny reports whether name matches one of patterns, or there are none. A pattern
// that ends in * matches every name with that prefix.
func matchAny(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		prefix, wild := strings.CutSuffix(p, "*")
		return p == name || wild && strings.HasPrefix(name, prefix)
	})
}

// Cursor reads a space's journal from a position onwards. It must be used by one
// goroutine at a time.
type Cursor struct {
	hub  *hub
	opts Options
	pos  journal.Position // everything up to here was delivered or filtered out
	seen string           // the newest epoch that the reader knows; a later one may be adopted
	era  int              // the hub's era in which pos was found to be resumable
	live bool             // reading from the ring, not from the journal
	done bool

	next  uint64 // index in the hub's ring; valid while live
	since uint64 // the number of the hub's broadcasts before this cursor
	fresh []item // the items last taken from the ring
	out   []*journal.Delivery

	place int           // in the crowd, from 1; 0: it is not there
	wake  chan struct{} // capacity 1
}

// Watch returns a cursor into a space, or *TrimmedError if opts.After cannot be
// resumed. The caller must close the cursor.
func (f *Fanout) Watch(ctx context.Context, space string, opts Options) (*Cursor, error) {
	// Attach before reading the head, so that no event is missed in between.
	h, err := f.attach(space)
	if err != nil {
		return nil, err
	}
	c := &Cursor{hub: h, opts: opts, wake: make(chan struct{}, 1)}
	if err := h.checkErased(ctx); err != nil {
		c.Close()
		return nil, err
	}
	at := h.state()
	head, err := c.head(ctx)
	for err == nil && at.gone(head) {
		h.reset()
		at = h.state()
		head, err = c.head(ctx)
	}
	c.era, c.since = at.era, at.broadcasts
	switch {
	case err != nil:
	case c.opts.Oldest:
	case c.opts.After.IsZero():
		c.pos = head.Last
	default:
		c.pos = c.opts.After
		err = head.Resume(c.pos)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	c.seen = head.Last.Epoch
	h.begin(head, at.era)
	return c, nil
}

func (c *Cursor) head(ctx context.Context) (journal.Head, error) {
	return c.hub.fanout.source.Head(ctx, c.hub.space)
}

// Position returns the position up to which everything that matches has been delivered.
func (c *Cursor) Position() journal.Position { return c.pos }

// Next waits for deliveries and returns at least one, in journal order. The slice is
// valid until the next call. Errors: ctx's, ErrClosed, *TrimmedError.
func (c *Cursor) Next(ctx context.Context) ([]*journal.Delivery, error) {
	for {
		if c.done {
			return nil, journal.ErrClosed
		}
		if ctx.Err() != nil {
			c.hub.leave(c)
			return nil, context.Cause(ctx)
		}
		var out []*journal.Delivery
		var changed <-chan struct{}
		var err error
		if c.live {
			out, changed, err = c.hub.take(c)
		} else {
			out, err = c.fromJournal(ctx)
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
			c.hub.leave(c)
			return nil, context.Cause(ctx)
		}
	}
}

// fromJournal reads the next page after the cursor's position, or joins the ring if
// that reaches back to it.
func (c *Cursor) fromJournal(ctx context.Context) ([]*journal.Delivery, error) {
	known := c.hub.state()
	if !known.begun || c.era != known.era {
		head, err := c.head(ctx)
		if err == nil {
			err = c.resume(head)
		}
		if err != nil {
			return nil, err
		}
		c.hub.begin(head, known.era)
		c.era = known.era
	}
	if c.hub.join(c) {
		return nil, nil
	}
	q := journal.ReadQuery{After: c.pos, Limit: 256}
	if len(c.opts.Streams) == 1 && !strings.HasSuffix(c.opts.Streams[0], "*") {
		q.Stream = c.opts.Streams[0]
	}
	page, err := c.hub.fanout.source.Read(ctx, c.hub.space, q)
	if err != nil {
		return nil, c.trimmed(err)
	}
	reached := page.Next
	if n := len(page.Events); n > 0 && page.Events[n-1].Position.Compare(reached) > 0 {
		reached = page.Events[n-1].Position
	} else if n == 0 && reached.IsZero() {
		// No event matches up to where the hub knew the journal before the read.
		reached = known.head
	}
	if reached.Epoch > c.seen { // it began after the head was read and may be adopted
		c.era = -1
		return nil, nil
	}
	out := make([]*journal.Delivery, 0, len(page.Events))
	for _, e := range page.Events {
		if d := (&journal.Delivery{Event: e}); c.opts.match(d) {
			out = append(out, d)
		}
	}
	if reached.Compare(c.pos) > 0 {
		c.pos = reached
	}
	return out, nil
}

// resume returns an error if the reader cannot continue from the cursor's position, or
// if the space was adopted. An adoption is reported once, and only to a reader that has
// read something.
func (c *Cursor) resume(head journal.Head) error {
	if err := head.Resume(c.pos); err != nil {
		return c.trimmed(err)
	}
	adopted := head.Adopted() > c.seen
	c.seen = head.Last.Epoch
	if !adopted || c.pos.IsZero() {
		return nil
	}
	return &journal.TrimmedError{Space: head.Space, Cursor: c.pos, Oldest: head.Oldest, Last: head.Last, Adopted: true,
		Reason: "it was changed by something else than commits, and that was adopted"}
}

// trimmed moves the cursor, if err is a *TrimmedError, to the journal's end, where its
// reader continues. It returns err.
func (c *Cursor) trimmed(err error) error {
	var t *journal.TrimmedError
	if errors.As(err, &t) {
		c.pos, c.seen = t.Last, t.Last.Epoch
	}
	return err
}

// Close ends the cursor. It is idempotent.
func (c *Cursor) Close() {
	if !c.done {
		c.done = true
		c.hub.fanout.detach(c.hub)
	}
}

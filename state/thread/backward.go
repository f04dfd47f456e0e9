package thread

import (
	"context"
	"slices"

	"github.com/thole-dev/thole"
)

// maxEvents bounds how many events one read of a history takes in, once it has
// a whole turn: a turn is streamed in chunks and may have very many.
const maxEvents = 20_000

// backward collects the events of whole turns, newest first.
type backward struct {
	sp     *thole.Space
	stream string
	before thole.Position
	want   int
	count  func(*Added) int

	events  []thole.Event
	have    int
	whole   int             // how many of the events belong to whole turns
	oldest  thole.Position  // of the whole turns
	newest  thole.Position  // just after the newest event
	more    bool            // it stopped before the beginning
	gone    map[string]bool // turns that were rewound
	summary *thole.Event    // the newest compaction
	upTo    string          // the turn up to which that one stands
	reached bool            // and the oldest turn is that one
}

func (b *backward) read(ctx context.Context) error {
	q := thole.ReadQuery{Stream: b.stream, Before: b.before, Backward: true, Types: folded, Limit: b.want + 2}
	for {
		page, err := b.sp.Read(ctx, q)
		if err != nil {
			return err
		}
		for i, e := range page.Events {
			enough, err := b.take(e)
			if err != nil {
				return err
			}
			if enough || b.whole > 0 && len(b.events) >= maxEvents {
				b.more = enough && b.reached || i+1 < len(page.Events) || !page.Next.IsZero()
				return nil
			}
		}
		if page.Next.IsZero() {
			return nil
		}
		q.Before, q.Limit = page.Next, 256
	}
}

// take adds an event and reports whether that is enough.
func (b *backward) take(e thole.Event) (bool, error) {
	if b.newest.IsZero() {
		b.newest = e.Position
		b.newest.Seq++
	}
	b.events = append(b.events, e)
	switch e.Type {
	case "thread.rewound":
		var r Rewound
		if err := e.As(&r); err != nil {
			return false, err
		}
		if b.gone == nil {
			b.gone = make(map[string]bool)
		}
		for _, turn := range r.Turns {
			b.gone[turn] = true
		}
	case "thread.compacted":
		var c Compacted
		if err := e.As(&c); err != nil {
			return false, err
		}
		if b.summary == nil {
			b.summary, b.upTo = &e, c.UpTo
		}
	case "message.added":
		var a Added
		if err := e.As(&a); err != nil {
			return false, err
		}
		if !b.gone[a.Turn] {
			b.have += b.count(&a)
		}
		if a.opens() {
			if b.summary != nil && a.Turn == b.upTo {
				b.reached = true
				return true, nil
			}
			b.whole, b.oldest = len(b.events), e.Position
			return b.have >= b.want, nil
		}
	}
	return false, nil
}

// fold makes turns of the events, with the summary in front if it was reached.
func (b *backward) fold(live string) ([]*Turn, error) {
	events := b.events[:b.whole]
	slices.Reverse(events)
	var f fold
	for _, e := range events {
		if err := f.apply(e); err != nil {
			return nil, err
		}
	}
	turns := f.end(live)
	if !b.reached {
		return turns, nil
	}
	var c Compacted
	if err := b.summary.As(&c); err != nil {
		return nil, err
	}
	if b.oldest.IsZero() {
		b.oldest = b.summary.Position
	}
	m := &Message{ID: sibling("msg", c.Summary.ID, 1), Role: Assistant, Status: Done, Turn: c.UpTo,
		Blocks: []Block{c.Summary}, Time: b.summary.Time, Position: b.oldest}
	t := &Turn{ID: c.UpTo, Status: Done, Response: m.Blocks, Time: m.Time, Position: b.oldest, messages: []*Message{m}}
	return append([]*Turn{t}, turns...), nil
}

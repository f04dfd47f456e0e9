package thread

import (
	"context"
	"slices"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

// maxEvents bounds the events that one read of a history collects once it has a whole
// turn. A turn is streamed in chunks and may have very many events.
const maxEvents = 20_000

// backward collects the events of whole turns, newest first: from the tail in memory,
// then from the journal.
type backward struct {
	sp     *thole.Space
	stream string
	at     thole.Position // ignore events after this position
	before thole.Position // unless zero, also ignore events at or after this one
	want   int            // stop when the counts sum up to this
	count  func(*Added) int

	facts   []fact
	have    int             // sum of the counts so far
	whole   int             // how many of the facts belong to whole turns
	oldest  thole.Position  // of the whole turns
	newest  thole.Position  // just after the newest fact
	more    bool            // older events remain
	gone    map[string]bool // turns that were rewound
	summary *fact           // the newest compaction
	upTo    string          // the last turn that the summary replaces
	reached bool            // reading got back to the turn upTo
}

func (b *backward) read(ctx context.Context) error {
	kept, err := tail.At(ctx, b.sp, b.stream, b.at, b.load)
	if err != nil || b.takeAll(slices.Backward(kept.facts), kept.older) {
		return err
	}
	before := kept.next
	if !b.before.IsZero() && b.before.Compare(before) < 0 {
		before = b.before
	}
	for older := kept.older; older; {
		p, err := b.page(ctx, before, 256)
		if err != nil {
			return err
		}
		if b.takeAll(slices.Backward(p.facts), p.older) {
			return nil
		}
		before, older = p.next, p.older
	}
	return nil
}

// load reads the newest facts for the tail: as many as wanted, at least a window, at
// most tailLen events.
func (b *backward) load(ctx context.Context) (newest, error) {
	end := b.at
	end.Seq++
	first := min(max(b.want, Window)*9/8, tailLen) // most messages are one event
	n, err := b.page(ctx, end, first)
	if probe := *b; err != nil || !n.older || first == tailLen || probe.takeAll(slices.Backward(n.facts), true) {
		return n, err
	}
	rest, err := b.page(ctx, n.next, tailLen-first)
	rest.facts = append(rest.facts, n.facts...)
	return rest, err
}

// page reads a page of the journal before a position.
func (b *backward) page(ctx context.Context, before thole.Position, limit int) (newest, error) {
	p, err := b.sp.Read(ctx, thole.ReadQuery{Stream: b.stream, Before: before, Backward: true, Limit: limit})
	if err != nil {
		return newest{}, err
	}
	out := newest{older: !p.Next.IsZero(), next: p.Next, facts: make([]fact, 0, len(p.Events))}
	for _, e := range slices.Backward(p.Events) {
		if !journal.MatchType(folded, e.Type) {
			continue // rare, so filtering here is cheaper than in the backend
		}
		f, err := factOf(e)
		if err != nil {
			return newest{}, err
		}
		out.facts = append(out.facts, f)
	}
	return out, nil
}

// takeAll adds facts, newest first, and reports whether there are enough. Older says
// whether there may be facts before these.
func (b *backward) takeAll(facts func(func(int, fact) bool), older bool) bool {
	for i, f := range facts {
		if !b.before.IsZero() && f.pos.Compare(b.before) >= 0 {
			continue
		}
		if b.take(f) || b.whole > 0 && len(b.facts) >= maxEvents {
			b.more = b.reached || i > 0 || older
			return true
		}
	}
	return false
}

// take adds a fact and reports whether there are enough.
func (b *backward) take(f fact) bool {
	if b.newest.IsZero() {
		b.newest = f.pos
		b.newest.Seq++
	}
	b.facts = append(b.facts, f)
	switch d := f.data.(type) {
	case *Rewound:
		if b.gone == nil {
			b.gone = make(map[string]bool)
		}
		for _, turn := range d.Turns {
			b.gone[turn] = true
		}
	case *Compacted:
		if b.summary == nil {
			b.summary, b.upTo = &f, d.UpTo
		}
	case *Added:
		if !b.gone[d.Turn] {
			b.have += b.count(d)
		}
		if d.opens() {
			if b.summary != nil && d.Turn == b.upTo {
				b.reached = true
				return true
			}
			b.whole, b.oldest = len(b.facts), f.pos
			return b.have >= b.want
		}
	}
	return false
}

// fold builds turns from the facts, with the summary in front if it was reached.
func (b *backward) fold(live string) []*Turn {
	var f fold
	for _, fact := range slices.Backward(b.facts[:b.whole]) {
		f.apply(fact)
	}
	turns := f.end(live)
	if !b.reached {
		return turns
	}
	c := b.summary.data.(*Compacted)
	if b.oldest.IsZero() {
		b.oldest = b.summary.pos
	}
	m := &Message{ID: sibling("msg", c.Summary.ID, 1), Role: Assistant, Status: Done, Turn: c.UpTo,
		Blocks: []Block{c.Summary.clone()}, Time: b.summary.time, Position: b.oldest}
	t := &Turn{ID: c.UpTo, Status: Done, Request: []Block{}, Response: m.Blocks, Time: m.Time, Position: b.oldest, messages: []*Message{m}}
	return append([]*Turn{t}, turns...)
}

package backendtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/thole-dev/thole/journal"
)

// tracker wraps a Backend and remembers what it acknowledged, for the consistency
// check after a case.
type tracker struct {
	journal.Backend
	history *history
}

// history is what all instances of one store acknowledged.
type history struct {
	mu     sync.Mutex
	spaces map[string]*spaceHistory
}

type spaceHistory struct {
	ranges []seqRange // of acknowledged commits
	loose  bool       // loaded, purged or with an unknown outcome: density cannot be checked
}

type seqRange struct{ first, last uint64 }

func (h *history) space(name string) *spaceHistory {
	s := h.spaces[name]
	if s == nil {
		s = &spaceHistory{}
		h.spaces[name] = s
	}
	return s
}

func (h *history) loosen(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.space(name).loose = true
}

func (t *tracker) Commit(ctx context.Context, batch []journal.Commit) ([]journal.Result, error) {
	results, err := t.Backend.Commit(ctx, batch)
	t.history.mu.Lock()
	defer t.history.mu.Unlock()
	for i := range batch {
		s := t.history.space(batch[i].Space)
		switch {
		case err != nil || i >= len(results):
			s.loose = true
		case results[i].Conflict == nil && results[i].Err == nil:
			last := results[i].Last.Seq
			first := last - uint64(max(1, len(batch[i].Events))) + 1
			s.ranges = append(s.ranges, seqRange{first, last})
		}
	}
	return results, err
}

func (t *tracker) Load(ctx context.Context, space string, c journal.Chunk) error {
	t.history.loosen(space)
	return t.Backend.Load(ctx, space, c)
}

func (t *tracker) Purge(ctx context.Context, space string, p journal.Purge) error {
	if p.All {
		t.history.loosen(space)
	}
	return t.Backend.Purge(ctx, space, p)
}

// verify is the consistency check: heads, density, both directions, streams,
// records and names must agree with each other and with what was acknowledged.
func (e *env) verify() {
	e.Helper()
	if _, err := e.b.Heads(e.ctx); err != nil {
		return // the case closed it
	}
	listed := e.spaces(journal.SpacesQuery{})
	e.ok(slices.IsSorted(listed), "spaces: got %q, want byte order", listed)
	for name, h := range e.b.history.spaces {
		head := e.head(name)
		e.ok(slices.Contains(listed, name) == !head.Last.IsZero(), "space %s: listed and its head %v disagree", name, head)
		if head.Last.IsZero() {
			e.ok(h.loose || len(h.ranges) == 0, "space %s: acknowledged commits are gone", name)
			continue
		}
		if !h.loose {
			e.verifyDensity(name, h.ranges, head)
		}
		e.verifySpace(name, head)
	}
}

// verifyDensity checks that what was acknowledged covers 1…Last exactly once.
func (e *env) verifyDensity(name string, ranges []seqRange, head journal.Head) {
	e.Helper()
	slices.SortFunc(ranges, func(a, b seqRange) int { return cmp.Compare(a.first, b.first) })
	next := uint64(1)
	for _, r := range ranges {
		e.need(r.first == next, "space %s: a commit got seq %d, want %d", name, r.first, next)
		next = r.last + 1
	}
	e.ok(head.Last.Seq == next-1, "space %s: head is at %d, want %d", name, head.Last.Seq, next-1)
}

func (e *env) verifySpace(name string, head journal.Head) {
	e.Helper()
	e.need(len(head.Epochs) > 0, "space %s: head has no epoch", name)
	current := head.Epochs[len(head.Epochs)-1]
	e.ok(current.Last == head.Last.Seq, "space %s: current epoch ends at %d, head at %d", name, current.Last, head.Last.Seq)

	events := e.readAll(name, journal.ReadQuery{})
	streams := map[string][]journal.Event{}
	for i, ev := range events {
		e.ok(ev.Position.Seq >= head.Oldest.Seq && ev.Position.Seq <= head.Last.Seq,
			"space %s: event %v is outside of %v…%v", name, ev.Position, head.Oldest, head.Last)
		e.ok(i == 0 || events[i-1].Position.Compare(ev.Position) < 0, "space %s: event %v is out of order", name, ev.Position)
		streams[ev.Stream] = append(streams[ev.Stream], ev)
	}
	e.equal("space "+name+" backward", e.readAll(name, journal.ReadQuery{Backward: true}), reversed(events))
	checked := 0
	for stream, want := range streams {
		if checked++; checked > 40 {
			break // each stream costs two calls; these are enough to show a problem
		}
		e.equal(fmt.Sprintf("space %s stream %q", name, stream), e.readAll(name, journal.ReadQuery{Stream: stream}), want)
		e.verifyVersion(name, stream, want[len(want)-1].Position)
	}

	records := e.listAll(name, journal.ListQuery{})
	for i, r := range records {
		e.ok(r.Exists() && r.Version.Seq <= head.Last.Seq, "space %s: record %q has version %v, head is %v", name, r.Key, r.Version, head.Last)
		e.ok(i == 0 || records[i-1].Key < r.Key, "space %s: record %q is out of order", name, r.Key)
	}
	e.equal("space "+name+" records by key", e.get(name, keysOf(records)...), records)
}

// verifyVersion checks a stream's version without changing anything: it commits with
// that check and a second one that cannot hold, which must be the reported one.
func (e *env) verifyVersion(name, stream string, version journal.Position) {
	e.Helper()
	never := journal.Check{Key: "never", At: journal.Position{Epoch: "9999ffffffff", Seq: 1}}
	c := e.conflict(name, journal.Check{Stream: stream, At: version}, never, event("never", "never.made"))
	e.ok(c.Check == never, "space %s stream %q: version is %v, want %v", name, stream, c.Actual, version)
}

package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/thole-dev/thole/internal/servertest"
)

// ledger records, outside of all servers, what they acknowledged.
type ledger struct {
	mu     sync.Mutex
	acked  map[string]map[string]string // space → position → what was written there
	counts map[string]int               // space → increments of its counter
}

func newLedger() *ledger {
	return &ledger{acked: map[string]map[string]string{}, counts: map[string]int{}}
}

// note records what is at a position of a space.
func (l *ledger) note(t testing.TB, space, position, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acked[space] == nil {
		l.acked[space] = map[string]string{}
	}
	if other := l.acked[space][position]; other != "" {
		t.Errorf("%s: %s was acknowledged for %s and for %s", space, position, other, what)
	}
	l.acked[space][position] = what
}

// count returns how many entries and increments were acknowledged.
func (l *ledger) count() (entries, increments int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for space := range l.acked {
		entries += len(l.acked[space])
		increments += l.counts[space]
	}
	return entries, increments
}

// write adds entries to a space's journal, and now and then increments its counter,
// until ctx ends.
func (l *ledger) write(ctx context.Context, c *client, space string) {
	for n := 0; ctx.Err() == nil; n++ {
		if n%4 == 0 {
			l.increment(ctx, c, space)
		}
		l.add(ctx, c, space, fmt.Sprintf("%d.%d", c.id, n))
	}
}

func (l *ledger) increment(ctx context.Context, c *client, space string) {
	if _, ok := c.Must(context.WithoutCancel(ctx), "PATCH", counterOf(space), increment(), nil); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.counts[space]++
	}
}

func counterOf(space string) string { return "/v1/spaces/" + space + "/documents/counter" }

// add adds one entry and records its position. It goes on after ctx has ended, so that
// its result is known.
func (l *ledger) add(ctx context.Context, c *client, space, entry string) bool {
	var at struct{ First string }
	_, ok := c.Must(context.WithoutCancel(ctx), "POST", "/v1/spaces/"+space+"/events",
		map[string]any{"type": "ledger.entry", "data": map[string]string{"entry": entry}}, &at)
	if ok {
		l.note(c.t, space, at.First, entry)
	}
	return ok
}

// compare checks a journal against what was acknowledged: each entry is there once, at
// its position, and there are no others.
func (l *ledger) compare(t *testing.T, space string, journal []servertest.Event) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[string]string{} // entry → position
	for _, e := range journal {
		if e.Type != "ledger.entry" {
			continue
		}
		var d struct{ Entry string }
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Errorf("%s: %v", e.Text, err)
		}
		if found[d.Entry] != "" {
			t.Errorf("%s: entry %s is there twice, at %s and %s", space, d.Entry, found[d.Entry], e.Position)
		}
		found[d.Entry] = e.Position
	}
	for at, entry := range l.acked[space] {
		if found[entry] != at {
			t.Errorf("%s: entry %s was acknowledged at %s and is at %q", space, entry, at, found[entry])
		}
		delete(found, entry)
	}
	for entry, at := range found {
		t.Errorf("%s: entry %s at %s was never acknowledged, and its writer went on until it was", space, entry, at)
	}
}

// compareCount checks that each acknowledged increment counted once.
func (l *ledger) compareCount(t *testing.T, s *servertest.Server, space string) {
	t.Helper()
	var doc struct{ Value struct{ N int } }
	s.Must("GET", counterOf(space), nil, &doc)
	l.mu.Lock()
	defer l.mu.Unlock()
	if doc.Value.N != l.counts[space] {
		t.Errorf("%s: the counter is %d after %d acknowledged increments", space, doc.Value.N, l.counts[space])
	}
}

// dense checks that the events of a space take every position from the first on.
func dense(t *testing.T, space string, journal []servertest.Event) {
	t.Helper()
	for i, e := range journal {
		if _, n := servertest.Seq(t, e.Position); n != uint64(i+1) {
			t.Errorf("%s: event %d has position %s", space, i+1, e.Position)
			return
		}
	}
}

// consistent checks that all members return the same journal of a space, and returns
// it. Events that are added meanwhile, such as the end of a lease, are allowed.
func (c *cluster) consistent(t *testing.T, space string) []servertest.Event {
	t.Helper()
	var journal []servertest.Event
	for i, s := range c.Members {
		next := s.Events(space)
		for n := range journal {
			if n >= len(next) || journal[n].Text != next[n].Text {
				t.Errorf("%s: event %s, which the others tell, is not at its place on server %d", space, journal[n].Text, i+1)
				break
			}
		}
		journal = next
	}
	return journal
}

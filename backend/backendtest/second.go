package backendtest

import (
	"fmt"
	"time"

	"github.com/thole-dev/thole/journal"
)

func secondCases() []testCase {
	return []testCase{
		{"second/two instances share one journal", secondShares},
		{"second/two instances lose no update", secondCounter},
		{"second/no read goes behind what an earlier one saw", secondBehind},
	}
}

// second opens another instance on the same data.
func (e *env) second() *tracker {
	e.Helper()
	other := e.harness.Second(e)
	e.Cleanup(func() { other.Close() })
	return &tracker{Backend: other, history: e.b.history}
}

func secondShares(e *env) {
	if e.lacks(Seconds) {
		return
	}
	other := e.second()
	both := []*tracker{e.b, other}
	var want []journal.Event
	at := journal.Position{}
	for i := range 20 {
		e.b = both[i%2]
		c := commitOf(journal.Check{Stream: "s", At: at}, journal.Check{Key: "k", At: at}, event("s", "s.made"), set("k", `1`))
		r := e.mustCommit(c)
		want, at = append(want, eventsOf(c, r)...), r.Last
		for _, b := range both {
			e.b = b
			e.equal("journal", e.readAll(space, journal.ReadQuery{}), want)
			e.equal("record", e.get(space, "k"), recordsOf(c, r))
			e.conflict(journal.Check{Stream: "s"}, event("s", "s.made"))
		}
	}
	e.b = both[1]
	e.purge(space, journal.Purge{Streams: []string{"s"}})
	e.b = both[0]
	e.must(journal.Check{Stream: "s"}, event("s", "s.made"))
	e.purge(space, journal.Purge{All: true})
	e.b = both[1]
	e.equal("first of the new space", e.must(journal.Check{Key: "k"}, set("k", `1`)).Last.Seq, uint64(1))
	e.b = both[0]
}

func secondCounter(e *env) {
	if e.lacks(Seconds) {
		return
	}
	other := e.second()
	both := []journal.Backend{e.b, other}
	const workers, each = 6, 10
	e.parallel(workers, func(i int) error {
		for range each {
			if err := increment(e.ctx, both[i%2], "counter"); err != nil {
				return err
			}
		}
		return nil
	})
	e.equal("events", len(e.readAll(space, journal.ReadQuery{Stream: "counter"})), workers*each)
	e.equal("counter", string(e.get(space, "counter")[0].Value), "60")
}

// secondBehind reads the commits of another instance with one method after the other.
// No method may be behind what was acknowledged or what the method before it saw. The
// instances first take turns, so that a stale one is detected independently of the
// scheduler, and then run in parallel.
func secondBehind(e *env) {
	if e.lacks(Seconds) {
		return
	}
	both := []*tracker{e.b, e.second()}
	c := commitOf(event("s", "s.made"), set("k", `1`))
	seen := uint64(0)
	for i := range 4 {
		e.b = both[i%2]
		seen = e.mustCommit(c).Last.Seq
		e.b = both[0]
		for n, b := range both {
			at, err := e.look(b, seen)
			e.need(err == nil && at == seen, "instance %d after commit %d of instance %d: got seq %d, error %v", n, seen, i%2, at, err)
		}
	}
	const commits = 30
	last := seen + commits
	e.parallel(2, func(i int) error {
		if i == 0 {
			for range commits {
				if _, err := both[1].Commit(e.ctx, []journal.Commit{c}); err != nil {
					return err
				}
			}
			return nil
		}
		for giveUp := time.Now().Add(patience); seen < last; {
			at, err := e.look(both[0], seen)
			if err != nil {
				return err
			}
			if at > seen {
				seen, giveUp = at, time.Now().Add(patience)
			}
			if time.Now().After(giveUp) {
				return fmt.Errorf("stuck at %d, want %d", seen, last)
			}
		}
		return nil
	})
	// The last commits may have come between two methods of the last call of look.
	seen, err := e.look(both[0], seen)
	e.need(err == nil, "at the end: %v", err)
	e.equal("seen at the end", seen, last)
}

// look reads the newest seq of b with one method after the other and returns what the
// last one saw. It returns an error if a method is behind the one before it or behind
// seen.
func (e *env) look(b journal.Backend, seen uint64) (uint64, error) {
	for _, method := range e.newest(b) {
		at, err := method.read()
		if err != nil || at < seen {
			return seen, fmt.Errorf("%s: got seq %d after %d was seen, error %v", method.name, at, seen, err)
		}
		seen = at
	}
	return seen, nil
}

// newestBy is a way to read the newest seq.
type newestBy struct {
	name string
	read func() (uint64, error)
}

// newest returns all ways to read the newest seq of a space in b in which every commit
// is an event of stream s and a write of k.
func (e *env) newest(b journal.Backend) []newestBy {
	record := func(records []journal.Record, err error) (uint64, error) {
		if err != nil || len(records) == 0 {
			return 0, err
		}
		return records[0].Version.Seq, nil
	}
	event := func(stream string) (uint64, error) {
		page, err := b.Read(e.ctx, space, journal.ReadQuery{Stream: stream, Backward: true, Limit: 1})
		if err != nil || len(page.Events) == 0 {
			return 0, err
		}
		return page.Events[0].Position.Seq, nil
	}
	return []newestBy{
		{"heads", func() (uint64, error) {
			heads, err := b.Heads(e.ctx, space)
			if err != nil {
				return 0, err
			}
			return heads[0].Last.Seq, nil
		}},
		{"get", func() (uint64, error) { return record(b.Get(e.ctx, space, "k")) }},
		{"read", func() (uint64, error) { return event("") }},
		{"list", func() (uint64, error) { return record(b.List(e.ctx, space, journal.ListQuery{})) }},
		{"read of a stream", func() (uint64, error) { return event("s") }},
	}
}

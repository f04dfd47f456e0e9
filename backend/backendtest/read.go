package backendtest

import (
	"fmt"
	"time"

	"github.com/thole-dev/thole/journal"
)

func readCases() []testCase {
	return []testCase{
		{"read/forward and backward between any two positions", readBounds},
		{"read/pages of any size lose and repeat nothing", readPaging},
		{"read/each filter selects exactly", readFilters},
		{"read/filters combine", readCombined},
		{"read/types are literal but for the verb", readTypes},
		{"read/a page holds at most MaxPage", readMaxPage},
		{"read/a filter that hardly matches finds everything", readSparse},
		{"read/at the end there is no next page", readEnd},
	}
}

// journal commits a mixed journal and returns its events.
func (e *env) journal(n int) []journal.Event {
	e.Helper()
	var want []journal.Event
	types := []string{"message.added", "message.updated", "run.queued", "messages.added", "message"}
	for i := range n {
		ev := event(fmt.Sprint("s", i%3), types[i%len(types)])
		ev.Subject = []string{"", "user:1", "user:2"}[i/2%3]
		c := commitOf(now.Add(time.Duration(i)*time.Second), ev)
		c.Actor = []string{"", "user:1", "agent:a", "user:10"}[i%4]
		if i%4 == 3 {
			e.must(set("k", `1`)) // a position without an event
		}
		if i%5 == 0 {
			c.Events = append(c.Events, event("s1", "tool.started"))
		}
		want = append(want, eventsOf(c, e.mustCommit(c))...)
	}
	return want
}

func readBounds(e *env) {
	all := e.journal(9)
	positions := []journal.Position{{}}
	for i := uint64(0); i <= e.head(space).Last.Seq; i++ {
		positions = append(positions, journal.Position{Epoch: all[0].Position.Epoch, Seq: i})
	}
	for _, after := range positions {
		for _, before := range positions {
			for _, backward := range []bool{false, true} {
				q := journal.ReadQuery{After: after, Before: before, Backward: backward}
				e.equal(fmt.Sprintf("%+v", q), e.readAll(space, q), selected(all, q))
			}
		}
	}
	q := journal.ReadQuery{Before: seq(e.head(space).Last, 1000), Backward: true}
	e.equal("before a position to come", e.readAll(space, q), reversed(all))
}

func readPaging(e *env) {
	all := e.journal(20)
	for limit := 1; limit <= len(all)+1; limit++ {
		for _, q := range []journal.ReadQuery{
			{Limit: limit}, {Limit: limit, Stream: "s1"}, {Limit: limit, Types: []string{"run.*"}}, {Limit: limit, Actor: "agent:a", After: all[3].Position},
			{Limit: limit, Before: all[9].Position},
		} {
			e.equal(fmt.Sprintf("%+v", q), e.readAll(space, q), selected(all, q))
			q.Backward = true
			e.equal(fmt.Sprintf("%+v", q), e.readAll(space, q), selected(all, q))
		}
	}
}

func readFilters(e *env) {
	all := e.journal(24)
	for _, q := range []journal.ReadQuery{
		{Stream: "s0"}, {Stream: "s1"}, {Stream: "S1"}, {Stream: "s"}, {Stream: "absent"},
		{Types: []string{"message.added"}}, {Types: []string{"message.*"}}, {Types: []string{"message"}},
		{Types: []string{"run.*", "tool.started"}}, {Types: []string{"absent.*"}},
		{Actor: "user:1"}, {Actor: "user:10"}, {Actor: "user"}, {Actor: "USER:1"}, {Subject: "user:2"}, {Subject: "user"},
		{Since: now.Add(5 * time.Second)}, {Since: now.Add(5*time.Second + time.Microsecond)}, {Since: now.Add(time.Hour)},
		{Until: now.Add(5 * time.Second)}, {Until: now.Add(5*time.Second + time.Microsecond)}, {Until: now},
		{Since: now.Add(3 * time.Second), Until: now.Add(4 * time.Second)},
	} {
		e.equal(fmt.Sprintf("%+v", q), e.readAll(space, q), selected(all, q))
		q.Backward = true
		e.equal(fmt.Sprintf("%+v", q), e.readAll(space, q), selected(all, q))
	}
}

func readCombined(e *env) {
	all := e.journal(40)
	for i := range 64 {
		var q journal.ReadQuery
		if i&1 != 0 {
			q.Stream = "s1"
		}
		if i&2 != 0 {
			q.Types = []string{"message.*", "tool.started", "message"}
		}
		if i&4 != 0 {
			q.Actor = "user:1"
		}
		if i&8 != 0 {
			q.Subject = "user:2"
		}
		if i&16 != 0 {
			q.Since, q.Until = now.Add(4*time.Second), now.Add(33*time.Second)
		}
		if i&32 != 0 {
			q.After, q.Before = all[2].Position, all[len(all)-4].Position
		}
		q.Limit, q.Backward = i%7, i%3 == 0
		e.equal(fmt.Sprintf("%+v", q), e.readAll(space, q), selected(all, q))
	}
}

func readTypes(e *env) {
	for _, typ := range []string{"a.b", "a.B", "ab.c", "a_.b", "ax.b", "a%.b", "a.b.c", "a", "a.", "a.*", "a/b.c", "a.b/c", "é.b", "😀.b", "a*.b", "b.a.b", "a[x].b", "A.b"} {
		e.must(event("s", typ))
	}
	all := e.readAll(space, journal.ReadQuery{})
	for _, typ := range []string{"a.*", "a_.*", "a%.*", "a.b.*", "a[x].*", "é.*", "😀.*", "a*.*", "A.*", "a.b", "a", "a.", "a_.b", "a%.b", "b", "a*", "*"} {
		q := journal.ReadQuery{Types: []string{typ}}
		e.equal("type "+typ, e.readAll(space, q), selected(all, q))
	}
}

func readMaxPage(e *env) {
	const n = journal.MaxPage + 40
	c := commitOf()
	for i := range n {
		c.Events = append(c.Events, event("s", "s.made"))
		if len(c.Events) == journal.MaxCommitItems || i == n-1 {
			e.mustCommit(c)
			c.Events = nil
		}
	}
	for _, limit := range []int{0, journal.MaxPage, journal.MaxPage + 20} {
		for _, backward := range []bool{false, true} {
			q := journal.ReadQuery{Limit: limit, Backward: backward}
			page := e.readPage(space, q)
			e.equal(fmt.Sprintf("%+v", q), len(page.Events), journal.MaxPage)
			e.ok(!page.Next.IsZero(), "%+v: there is more, but Next is zero", q)
			e.equal(fmt.Sprintf("all of %+v", q), len(e.readAll(space, q)), n)
		}
	}
}

// readSparse reads enough events that a backend with bounded work per page ends pages
// early.
func readSparse(e *env) {
	const commits = 40
	rare := []journal.Event{}
	for i := range commits {
		c := commitOf()
		for range journal.MaxCommitItems {
			c.Events = append(c.Events, journal.Event{Stream: "s", Type: "s.made"})
		}
		if i == 1 || i == commits-2 {
			c.Events[7].Type, c.Events[9].Subject = "rare.made", "user:rare"
		}
		r := e.mustCommit(c)
		for _, ev := range eventsOf(c, r) {
			if ev.Type == "rare.made" || ev.Subject != "" {
				rare = append(rare, ev)
			}
		}
	}
	for _, q := range []journal.ReadQuery{{Types: []string{"rare.*"}}, {Subject: "user:rare"}, {Stream: "s", Types: []string{"rare.made"}, Limit: 1}, {Actor: "nobody"}} {
		e.equal(fmt.Sprintf("%+v", q), e.readAll(space, q), selected(rare, q))
		q.Backward = true
		e.equal(fmt.Sprintf("%+v", q), e.readAll(space, q), selected(rare, q))
	}
}

func readEnd(e *env) {
	all := e.journal(6)
	last := e.head(space).Last
	for _, q := range []journal.ReadQuery{{}, {After: last}, {Limit: len(all)}, {Backward: true}, {Backward: true, Before: all[0].Position}, {Stream: "absent"}} {
		page := e.readPage(space, q)
		for i := 0; !page.Next.IsZero(); i++ { // pages may end early, but only a few times
			e.need(i < 3, "%+v: Next is still %v after all was read", q, page.Next)
			if q.Backward {
				q.Before = page.Next
			} else {
				q.After = page.Next
			}
			page = e.readPage(space, q)
			e.ok(len(page.Events) == 0, "%+v: got more events", q)
		}
	}
	r := e.must(event("s1", "s.made"))
	e.equal("what came since", len(e.readAll(space, journal.ReadQuery{After: last})), int(r.Last.Seq-last.Seq))
}

package backendtest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/thole-dev/thole/journal"
)

func limitCases() []testCase {
	return []testCase{
		{"limit/a value and an event of 512 KiB", limitValue},
		{"limit/a value and an event that nest as deep as they may", limitDepth},
		{"limit/a commit of 256 items", limitItems},
		{"limit/a commit of 4 MiB", limitBytes},
		{"limit/a batch of several full commits", limitBatch},
	}
}

// blob returns a JSON string of exactly size bytes that hardly compresses.
func blob(size int, seed uint64) []byte {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	b := make([]byte, size)
	for i := range b {
		seed = seed*6364136223846793005 + 1442695040888963407
		b[i] = digits[seed>>58]
	}
	b[0], b[size-1] = '"', '"'
	return b
}

func limitValue(e *env) {
	ev := event("s", "s.made")
	ev.Data = blob(journal.MaxValueBytes, 1)
	c := commitOf(ev, journal.Write{Key: "k", Value: blob(journal.MaxValueBytes, 2)})
	r := e.mustCommit(c)
	e.equal("event", e.readAll(space, journal.ReadQuery{}), eventsOf(c, r))
	e.equal("record", e.get(space, "k"), recordsOf(c, r))
	e.reopen()
	e.equal("record", e.list(space, journal.ListQuery{}), recordsOf(c, r))
}

func limitDepth(e *env) {
	nested := func(levels int) []byte {
		return []byte(strings.Repeat(`{"a":[`, levels/2) + strings.Repeat(`]}`, levels/2))
	}
	ev := event("s", "s.made")
	ev.Data = nested(journal.MaxEventDepth)
	c := commitOf(ev, journal.Write{Key: "k", Value: nested(journal.MaxDepth)}, journal.Write{Key: "idem/k", Value: nested(journal.MaxEventDepth)})
	r := e.mustCommit(c)
	e.equal("event", e.readAll(space, journal.ReadQuery{}), eventsOf(c, r))
	e.reopen()
	e.equal("event, reopened", e.readAll(space, journal.ReadQuery{}), eventsOf(c, r))
	e.equal("record", e.get(space, "k", "idem/k"), recordsOf(c, r))
}

func limitItems(e *env) {
	const third = journal.MaxCommitItems / 3
	name := func(i int) string {
		suffix := fmt.Sprint(i)
		return strings.Repeat("k", journal.MaxNameBytes-len(suffix)) + suffix
	}
	c := commitOf()
	for i := range third {
		c.Checks = append(c.Checks, journal.Check{Key: name(i)})
		c.Events = append(c.Events, event(name(i), "s.made"))
		c.Writes = append(c.Writes, set(name(i), fmt.Sprint(i)))
	}
	c.Events = append(c.Events, event("last", "s.made"))
	r := e.mustCommit(c)
	e.equal("journal", e.readAll(space, journal.ReadQuery{}), eventsOf(c, r))
	e.equal("records", len(e.list(space, journal.ListQuery{})), third)
	again := e.commit(c)[0].Conflict
	e.need(again != nil && again.Check == c.Checks[0], "again: got %v, want the first check", again)

	events, writes := commitOf(), commitOf()
	for i := range journal.MaxCommitItems {
		events.Events = append(events.Events, event("many", "s.made"))
		writes.Writes = append(writes.Writes, set(name(i), `"all"`))
	}
	e.equal("events only", len(eventsOf(events, e.mustCommit(events))), journal.MaxCommitItems)
	e.mustCommit(writes)
	e.equal("records", len(e.list(space, journal.ListQuery{})), journal.MaxCommitItems)
}

// fullCommit returns a commit of MaxCommitBytes, including its names.
func fullCommit(name string) journal.Commit {
	c := commitOf(name)
	const n = journal.MaxCommitBytes / journal.MaxValueBytes
	for i := range n {
		value := blob(journal.MaxValueBytes-600, uint64(i))
		if i%2 == 0 {
			ev := event("s", "s.made")
			ev.Data = value
			c.Events = append(c.Events, ev)
		} else {
			c.Writes = append(c.Writes, journal.Write{Key: fmt.Sprint("k", i), Value: value})
		}
	}
	return c
}

func limitBytes(e *env) {
	c := fullCommit(space)
	r := e.mustCommit(c)
	e.equal("journal", e.readAll(space, journal.ReadQuery{}), eventsOf(c, r))
	e.equal("records", e.list(space, journal.ListQuery{}), recordsOf(c, r))
}

func limitBatch(e *env) {
	batch := []journal.Commit{fullCommit("user:1"), fullCommit("user:2"), fullCommit("user:1")}
	for i, r := range e.commit(batch...) {
		e.need(r.Conflict == nil, "commit %d: got %v", i, r.Conflict)
		got := e.get(batch[i].Space, batch[i].Writes[0].Key)[0].Value
		e.ok(bytes.Equal(got, batch[i].Writes[0].Value), "commit %d: got %d bytes, want those written", i, len(got))
	}
}

package backendtest

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/thole-dev/thole/journal"
)

func loadCases() []testCase {
	return []testCase{
		{"load/positions, versions and times are kept", loadExact},
		{"load/nothing is visible before Done", loadHidden},
		{"load/a space that exists is refused", loadExists},
		{"load/positions outside of the head's epochs are refused", loadOutside},
		{"load/another head starts over", loadRestart},
		{"load/after a purge nothing of an earlier import comes back", loadAfterPurge},
		{"load/commits go on after what was loaded", loadContinues},
		{"load/a copy is like its original", loadCopy},
		{"load/a trimmed space is loaded as trimmed", loadTrimmed},
	}
}

// twoEpochs returns a space whose first epoch lost its tail: seqs 1…4 and 5…9, of
// which 3, 6 and 9 are commits without events.
func twoEpochs(name string) journal.Chunk {
	one, two := "0001aaaaaaaa", "0002bbbbbbbb"
	c := journal.Chunk{Done: true, Head: journal.Head{
		Space: name, Oldest: journal.Position{Epoch: one, Seq: 1}, Last: journal.Position{Epoch: two, Seq: 9},
		Epochs: []journal.Epoch{{Name: one, First: 1, Last: 4}, {Name: two, First: 5, Last: 9, Adopted: true}},
	}}
	for _, n := range []uint64{1, 2, 4, 5, 7, 8} {
		ev := event([]string{"s", "t"}[n%2], "s.made")
		ev.Position = journal.Position{Epoch: one, Seq: n}
		if n > 4 {
			ev.Position.Epoch = two
		}
		ev.Time, ev.Actor, ev.Subject, ev.Refs = now.Add(-time.Duration(n)*time.Hour), "user:old", "user:7", []string{"a", "b"}
		c.Events = append(c.Events, ev)
	}
	c.Records = []journal.Record{
		{Key: "z", Value: json.RawMessage(` 1 `), Schema: 2, Version: journal.Position{Epoch: one, Seq: 3}, Updated: now.Add(-time.Hour)},
		{Key: "a", Value: json.RawMessage(`2`), Version: c.Head.Last, Updated: now, Expires: due, Notify: true},
		{Key: "m/x", Value: json.RawMessage(`null`), Version: journal.Position{Epoch: two, Seq: 6}, Updated: now, Expires: later},
	}
	return c
}

// stateOf returns the state that a space must have after c is loaded.
func stateOf(c journal.Chunk) state {
	records := slices.Clone(c.Records)
	slices.SortFunc(records, func(a, b journal.Record) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	return state{
		Head:    canonical(c.Head).(journal.Head),
		Events:  canonical(c.Events).([]journal.Event),
		Records: canonical(records).([]journal.Record),
	}
}

// parts splits c into single items, the last one Done.
func parts(c journal.Chunk) []journal.Chunk {
	var out []journal.Chunk
	for i := range c.Events {
		out = append(out, journal.Chunk{Head: c.Head, Events: c.Events[i : i+1]})
		if i < len(c.Records) {
			out = append(out, journal.Chunk{Head: c.Head, Records: c.Records[i : i+1]})
		}
	}
	return append(out, journal.Chunk{Head: c.Head, Done: true})
}

func loadExact(e *env) {
	whole := twoEpochs("user:1")
	e.load("user:1", whole)
	e.equal("in one chunk", e.state("user:1"), stateOf(whole))
	pieces := twoEpochs("user:2")
	for _, part := range parts(pieces) {
		e.load("user:2", part)
	}
	e.equal("in many chunks", e.state("user:2"), stateOf(pieces))
	e.equal("due", keysOf(e.list("user:2", journal.ListQuery{DueBy: due})), []string{"a"})
	e.equal("spaces due", e.spaces(journal.SpacesQuery{DueBy: later}), []string{"user:1", "user:2"})
	empty := journal.Chunk{Head: twoEpochs("user:3").Head, Done: true}
	e.load("user:3", empty)
	e.equal("with nothing in it", e.state("user:3"), stateOf(empty))
}

func loadHidden(e *env) {
	c := twoEpochs(space)
	for _, part := range parts(c) {
		if part.Done {
			break
		}
		e.load(space, part)
		e.equal("head", e.head(space), journal.Head{Space: space})
		e.equal("spaces", e.spaces(journal.SpacesQuery{}), []string{})
		e.equal("spaces due", e.spaces(journal.SpacesQuery{DueBy: later}), []string{})
		e.equal("get", e.get(space, "a", "z"), []journal.Record{{}, {}})
		e.equal("list", e.list(space, journal.ListQuery{}), []journal.Record{})
		e.equal("list due", e.list(space, journal.ListQuery{DueBy: later}), []journal.Record{})
		for _, q := range []journal.ReadQuery{{}, {Backward: true}, {Stream: "s"}} {
			e.equal("read", len(e.readPage(space, q).Events), 0)
		}
		e.is("purge", e.b.Purge(e.ctx, space, journal.Purge{All: true}), journal.ErrNotFound)
	}
	e.load(space, journal.Chunk{Head: c.Head, Done: true})
	e.equal("all at once", e.state(space), stateOf(c))
}

func loadExists(e *env) {
	e.must(event("s", "s.made"), set("k", `1`))
	e.unchanged(space, func() {
		for _, part := range []journal.Chunk{twoEpochs(space), parts(twoEpochs(space))[0]} {
			e.is("load", e.b.Load(e.ctx, space, part), journal.ErrExists)
		}
	})
	e.load("user:1", twoEpochs("user:1"))
	e.is("load after Done", e.b.Load(e.ctx, "user:1", twoEpochs("user:1")), journal.ErrExists)
}

func loadOutside(e *env) {
	for _, part := range parts(twoEpochs(space))[:4] {
		e.load(space, part)
	}
	good := twoEpochs(space)
	one, two := good.Head.Epochs[0].Name, good.Head.Epochs[1].Name
	for _, at := range []journal.Position{
		{}, {Epoch: one}, {Epoch: one, Seq: 5}, {Epoch: two, Seq: 4}, {Epoch: two, Seq: 10}, {Epoch: two, Seq: journal.MaxSeq}, {Epoch: "0001ffffffff", Seq: 1},
	} {
		// The good item before the bad one must not remain, nor the other head.
		ev, r := good.Events[0], good.Records[0]
		ev.Stream, ev.Position, r.Key, r.Version = "outside", at, "outside", at
		events := journal.Chunk{Head: good.Head, Events: []journal.Event{good.Events[1], ev}, Done: true}
		e.is("event at "+at.String(), e.b.Load(e.ctx, space, events), journal.ErrInvalid)
		records := journal.Chunk{Head: good.Head, Records: []journal.Record{good.Records[2], r}, Done: true}
		records.Head.Oldest.Seq = 2
		e.is("version "+at.String(), e.b.Load(e.ctx, space, records), journal.ErrInvalid)
		e.equal("head", e.head(space), journal.Head{Space: space})
	}
	e.is("no epochs", e.b.Load(e.ctx, space, journal.Chunk{Head: journal.Head{Space: space}, Done: true}), journal.ErrInvalid)
	for _, part := range parts(good)[4:] {
		e.load(space, part)
	}
	e.equal("the import goes on", e.state(space), stateOf(good))
}

func loadRestart(e *env) {
	abandoned := twoEpochs(space)
	abandoned.Head.Last.Seq, abandoned.Head.Epochs[1].Last = 12, 12
	abandoned.Records = append(abandoned.Records, journal.Record{Key: "stale", Value: json.RawMessage(`1`), Version: abandoned.Head.Last, Updated: now, Expires: due})
	abandoned.Events[1].Stream, abandoned.Events[1].Data = "stale", json.RawMessage(`"stale"`)
	abandoned.Done = false
	e.load(space, abandoned)
	c := twoEpochs(space)
	c.Events = c.Events[1:]
	for _, part := range parts(c) {
		e.load(space, part)
	}
	e.equal("only the second import", e.state(space), stateOf(c))
}

func loadAfterPurge(e *env) {
	e.load(space, twoEpochs(space))
	e.purge(space, journal.Purge{All: true})
	c := twoEpochs(space)
	c.Events, c.Records = c.Events[2:4], c.Records[:1]
	e.load(space, c)
	e.equal("only the second import", e.state(space), stateOf(c))

	half := twoEpochs("user:1")
	half.Done = false
	e.load("user:1", half)
	e.must("user:1", journal.Check{Stream: "s"}, journal.Check{Key: "z"}, event("s", "s.made"))
	e.unchanged("user:1", func() {
		e.is("the space exists by now", e.b.Load(e.ctx, "user:1", journal.Chunk{Head: half.Head, Done: true}), journal.ErrExists)
	})
}

func loadContinues(e *env) {
	c := twoEpochs(space)
	e.load(space, c)
	for _, k := range []journal.Check{{Stream: "s"}, {Key: "z"}, {Stream: "s", At: c.Events[3].Position}, {Key: "z", At: c.Head.Last}} {
		e.conflict(k, event("s", "s.seen"))
	}
	e.ok(e.conflict(later, set("a", `1`)).Expired, "a loaded notify record does not expire")
	want := seq(c.Head.Last, 1)
	r := e.must(
		journal.Check{Stream: "s", At: c.Events[5].Position}, journal.Check{Stream: "t", At: c.Events[4].Position},
		journal.Check{Key: "z", At: c.Records[0].Version}, journal.Check{Key: "a", At: c.Records[1].Version},
		event("s", "s.seen"), journal.Write{Key: "a"})
	e.equal("position", r.First, want)
	head := c.Head
	head.Last, head.Epochs = want, []journal.Epoch{c.Head.Epochs[0], {Name: want.Epoch, First: 5, Last: 10, Adopted: true}}
	e.equal("head", e.head(space), head)
	e.equal("records", keysOf(e.list(space, journal.ListQuery{})), []string{"m/x", "z"})
}

func loadCopy(e *env) {
	e.journal(30)
	e.must(expiring("x", due, true), expiring("y", later, false))
	e.copy(space, "project:copy")
	want := e.state(space)
	want.Head.Space = "project:copy"
	e.equal("copy", e.state("project:copy"), want)
	e.unchanged(space, func() { e.must("project:copy", event("s", "s.made"), set("k", `2`)) })
}

// copy loads the content of space from into space to, in small chunks.
func (e *env) copy(from, to string) {
	e.Helper()
	head := e.head(from)
	head.Space = to
	events, records := e.readAll(from, journal.ReadQuery{}), e.listAll(from, journal.ListQuery{})
	for chunk := range slices.Chunk(records, 7) {
		e.load(to, journal.Chunk{Head: head, Records: chunk})
	}
	for chunk := range slices.Chunk(events, 7) {
		e.load(to, journal.Chunk{Head: head, Events: chunk})
	}
	e.load(to, journal.Chunk{Head: head, Done: true})
}

func loadTrimmed(e *env) {
	c := twoEpochs(space)
	c.Head.Oldest = journal.Position{Epoch: c.Head.Epochs[1].Name, Seq: 7}
	c.Events = c.Events[4:]
	e.load(space, c)
	e.equal("state", e.state(space), stateOf(c))
	e.cannotResume(space, journal.Position{Epoch: c.Head.Epochs[1].Name, Seq: 5})
	_, err := e.b.Read(e.ctx, space, journal.ReadQuery{After: journal.Position{Epoch: c.Head.Epochs[0].Name, Seq: 2}})
	e.ok(errors.Is(err, journal.ErrTrimmed), "in the epoch that is gone: got %v, want ErrTrimmed", err)
}

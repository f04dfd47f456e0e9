package backendtest

import (
	"slices"

	"github.com/thole-dev/thole/journal"
)

func purgeCases() []testCase {
	return []testCase{
		{"purge/a whole space leaves nothing and starts a new epoch", purgeAll},
		{"purge/before trims events and nothing else", purgeBefore},
		{"purge/streams loses their events and versions", purgeStreams},
		{"purge/streams up to a position keep what is later", purgeStreamsUpTo},
		{"purge/events are redacted in place", purgeEvents},
		{"purge/takes no position", purgeNoPosition},
		{"purge/a space that does not exist is not found", purgeNotFound},
		{"purge/outlives a reopen", purgeReopen},
	}
}

func purgeAll(e *env) {
	e.journal(10)
	e.must(expiring("due", due, true))
	old := e.head(space)
	e.must("user:42", event("s", "s.made"), set("k", `1`))
	e.unchanged("user:42", func() { e.purge(space, journal.Purge{All: true}) })
	e.equal("state", e.state(space), state{Head: canonical(journal.Head{Space: space}).(journal.Head), Events: []journal.Event{}, Records: []journal.Record{}})
	e.equal("get", e.get(space, "k", "due"), []journal.Record{{}, {}})
	e.equal("spaces", e.spaces(journal.SpacesQuery{}), []string{"user:42"})
	e.equal("streams", len(e.readAll(space, journal.ReadQuery{Stream: "s1"})), 0)
	e.is("again", e.b.Purge(e.ctx, space, journal.Purge{All: true}), journal.ErrNotFound)

	r := e.must(later, journal.Check{Stream: "s1"}, journal.Check{Key: "k"}, journal.Check{Key: "due"}, event("s1", "s.made"), set("due", `1`))
	e.equal("starts at", r.First.Seq, uint64(1))
	e.ok(r.First.Epoch != old.Last.Epoch, "epoch: got the old one, %s", r.First.Epoch)
	e.equal("events", len(e.readAll(space, journal.ReadQuery{})), 1)
	e.equal("records", keysOf(e.list(space, journal.ListQuery{})), []string{"due"})
}

func purgeBefore(e *env) {
	e.journal(12)
	e.must(event("lonely", "s.made"))
	all := e.readAll(space, journal.ReadQuery{})
	want := e.state(space)
	for _, i := range []int{0, 5, 3, len(all) - 1} { // going back changes nothing
		e.purge(space, journal.Purge{Before: all[i].Position})
		if all[i].Position.Compare(want.Head.Oldest) > 0 {
			want.Head.Oldest, want.Events = all[i].Position, canonical(all[i:]).([]journal.Event)
		}
		e.equal("state", e.state(space), want)
	}
	e.equal("a trimmed stream", len(e.readAll(space, journal.ReadQuery{Stream: "s1"})), 0)
	e.must(journal.Check{Stream: "s1"}, journal.Check{Stream: "lonely", At: all[len(all)-1].Position}, event("s1", "s.made"))
	end := e.head(space).Last
	e.purge(space, journal.Purge{Before: seq(end, 1)})
	e.equal("nothing is left", len(e.readAll(space, journal.ReadQuery{})), 0)
	e.equal("but the head", e.head(space).Last, end)
	e.equal("a reader at the head goes on", len(e.readAll(space, journal.ReadQuery{After: end})), 0)
	e.equal("the next one", e.must(event("s", "s.made")).First, seq(end, 1))
}

func purgeStreams(e *env) {
	all := e.journal(15)
	want := e.state(space)
	e.purge(space, journal.Purge{Streams: []string{"s1", "absent"}})
	kept := []journal.Event{}
	for _, ev := range all {
		if ev.Stream != "s1" {
			kept = append(kept, ev)
		}
	}
	want.Events = canonical(kept).([]journal.Event)
	e.equal("state", e.state(space), want)
	e.conflict(journal.Check{Stream: "s0"}, event("s0", "s.made"))
	r := e.must(journal.Check{Stream: "s1"}, event("s1", "s.made"))
	e.equal("position", r.First, seq(want.Head.Last, 1))
	e.equal("the stream begins anew", len(e.readAll(space, journal.ReadQuery{Stream: "s1"})), 1)
	e.purge(space, journal.Purge{Streams: []string{"s0", "s1", "s2"}})
	e.equal("no events", len(e.readAll(space, journal.ReadQuery{})), 0)
	e.equal("a reader at the head goes on", len(e.readAll(space, journal.ReadQuery{After: r.Last})), 0)
}

func purgeStreamsUpTo(e *env) {
	all := e.journal(15)
	want := e.state(space)
	foreign := want.Head.Last
	foreign.Epoch = "0001aaaaaaaa"
	for _, upTo := range []journal.Position{foreign, seq(want.Head.Last, 1)} {
		e.purge(space, journal.Purge{Streams: []string{"s0", "s1"}, UpTo: upTo})
		e.equal("up to a position that the space never had", e.state(space), want)
	}
	e.must(set("k", `1`))
	upTo := e.head(space).Last // of no event
	again := e.must(event("s1", "s.made"), event("s2", "s.made"))
	want = e.state(space)
	want.Events = slices.DeleteFunc(want.Events, func(ev journal.Event) bool {
		return ev.Position.Compare(upTo) <= 0 && (ev.Stream == "s0" || ev.Stream == "s1")
	})
	for range 2 {
		e.purge(space, journal.Purge{Streams: []string{"s0", "s1", "absent"}, UpTo: upTo})
		e.equal("state", e.state(space), want)
	}
	e.conflict(journal.Check{Stream: "s1"}, event("s1", "s.made"))
	e.must(journal.Check{Stream: "s0"}, journal.Check{Stream: "s1", At: again.First}, event("s1", "s.made"))

	e.purge(space, journal.Purge{Streams: []string{"s2"}, UpTo: all[6].Position}) // between two of its events
	e.equal("what is later", e.readAll(space, journal.ReadQuery{Stream: "s2"}), laterThan(want.Events, "s2", all[6].Position))

	e.purge(space, journal.Purge{All: true})
	e.must(event("s1", "s.made"))
	anew := e.state(space)
	e.purge(space, journal.Purge{Streams: []string{"s1"}, UpTo: upTo})
	e.equal("a space made anew", e.state(space), anew)
}

func laterThan(all []journal.Event, stream string, at journal.Position) (later []journal.Event) {
	for _, ev := range all {
		if ev.Stream == stream && ev.Position.Compare(at) > 0 {
			later = append(later, ev)
		}
	}
	return later
}

func purgeEvents(e *env) {
	var all []journal.Event
	for range 4 {
		ev := event("s", "s.made")
		ev.Subject, ev.Refs = "user:7", []string{"msg_1"}
		c := commitOf(ev, ev, set("k", `1`))
		all = append(all, eventsOf(c, e.mustCommit(c))...)
	}
	want := e.state(space)
	foreign := all[5].Position
	foreign.Epoch = "0001aaaaaaaa"
	e.purge(space, journal.Purge{Events: []journal.Position{all[1].Position, all[6].Position, foreign, seq(want.Head.Last, 5)}})
	for _, i := range []int{1, 6} {
		ev := &all[i]
		ev.Data, ev.Actor, ev.Cause, ev.Subject, ev.Refs = nil, "", "", "", nil
	}
	want.Events = canonical(all).([]journal.Event)
	e.equal("state", e.state(space), want)
	for _, q := range []journal.ReadQuery{{Subject: "user:7"}, {Actor: "user:42"}, {Stream: "s"}} {
		e.equal("filters see what is left", e.readAll(space, q), selected(all, q))
	}
	e.must(journal.Check{Stream: "s", At: all[7].Position}, event("s", "s.made"))
}

func purgeNoPosition(e *env) {
	all := e.journal(10)
	last := e.head(space).Last
	e.purge(space, journal.Purge{Events: []journal.Position{all[3].Position}})
	e.purge(space, journal.Purge{Streams: []string{"s1"}})
	e.purge(space, journal.Purge{Before: all[2].Position})
	e.equal("head", e.head(space).Last, last)
	e.equal("next", e.must(event("s", "s.made")).First, seq(last, 1))
}

func purgeNotFound(e *env) {
	at := journal.Position{Epoch: "0001aaaaaaaa", Seq: 1}
	for _, p := range []journal.Purge{{All: true}, {Before: at}, {Streams: []string{"s"}}, {Events: []journal.Position{at}}} {
		e.is("purge", e.b.Purge(e.ctx, space, p), journal.ErrNotFound)
	}
	e.equal("spaces", e.spaces(journal.SpacesQuery{}), []string{})
}

func purgeReopen(e *env) {
	e.must("user:gone", event("s", "s.made"), set("k", `1`))
	all := e.journal(12)
	e.purge("user:gone", journal.Purge{All: true})
	e.purge(space, journal.Purge{Before: all[3].Position})
	e.purge(space, journal.Purge{Streams: []string{"s1"}})
	e.purge(space, journal.Purge{Events: []journal.Position{all[len(all)-1].Position}})
	want := e.state(space)
	e.reopen()
	e.equal("state", e.state(space), want)
	e.equal("spaces", e.spaces(journal.SpacesQuery{}), []string{space})
	e.must(journal.Check{Stream: "s1"}, event("s1", "s.made"))
}

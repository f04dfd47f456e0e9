package backendtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/thole-dev/thole/journal"
)

func commitCases() []testCase {
	return []testCase{
		{"commit/events take dense positions in order", commitDense},
		{"commit/a commit without events takes one position", commitWithoutEvents},
		{"commit/events get the commit's time, actor and cause", commitFills},
		{"commit/everything round-trips exactly", commitRoundTrip},
		{"commit/JSON stays as it was compacted, byte for byte", commitBytes},
		{"commit/the first commit creates the space", commitCreates},
		{"commit/a write replaces and a nil value deletes", commitReplaces},
		{"commit/clocks order nothing", commitClocks},
		{"commit/spaces do not touch each other", commitSpaces},
		{"commit/a cancelled commit happens in whole or not at all", commitCancelled},
	}
}

func commitDense(e *env) {
	var want []journal.Event
	for i := range 5 {
		c := commitOf(event("a", "a.made"), event("b", "b.made"), event("a", "a.seen"))
		r := e.mustCommit(c)
		e.equal("First", r.First.Seq, uint64(3*i+1))
		e.equal("Last", r.Last.Seq, uint64(3*i+3))
		e.equal("head", e.head(space).Last, r.Last)
		want = append(want, eventsOf(c, r)...)
	}
	e.equal("journal", e.readAll(space, journal.ReadQuery{}), want)
}

func commitWithoutEvents(e *env) {
	e.equal("first", e.must(set("k", `1`)).Last.Seq, uint64(1))
	r := e.must(set("k", `2`))
	e.equal("second", r.Last.Seq, uint64(2))
	e.ok(r.First.IsZero(), "First without events: got %v, want none", r.First)
	e.equal("deleting an absent key", e.must(journal.Write{Key: "absent"}).Last.Seq, uint64(3))
	e.equal("event after it", e.must(event("a", "a.made")).First.Seq, uint64(4))
	e.equal("record", e.get(space, "k")[0].Version, r.Last)
	e.equal("journal", len(e.readAll(space, journal.ReadQuery{})), 1)
}

func commitFills(e *env) {
	c := commitOf(event("a", "a.made"), set("k", `1`))
	c.Events[0].Position = journal.Position{Epoch: "0007aaaaaaaa", Seq: 77}
	c.Events[0].Time, c.Events[0].Actor, c.Events[0].Cause = now.Add(time.Hour), "user:other", "other"
	r := e.mustCommit(c)
	e.equal("event", e.readAll(space, journal.ReadQuery{}), eventsOf(c, r))
	anonymous := journal.Commit{Space: space, Now: now, Events: []journal.Event{{Stream: "a", Type: "a.seen"}}}
	r = e.mustCommit(anonymous)
	e.equal("event without actor, cause and data", e.readAll(space, journal.ReadQuery{After: seq(r.First, -1)}), eventsOf(anonymous, r))
}

func commitRoundTrip(e *env) {
	values := []string{
		`null`, `true`, `0`, `""`, `[]`, `{}`, `-1.5e-300`, `9007199254740993`, `123456789012345678901234567890`,
		` { "b" : 1,  "a" : [ 2 , 3 ] } `, `{"a":1,"a":2}`, `"\u0000\u2028\ud83d\ude00"`, "\"é😀 \x7f\"", `"<&>'\\\""`,
	}
	times := []time.Time{
		now, now.Add(time.Microsecond), time.Unix(0, 0).UTC(), time.Unix(0, 0).Add(-time.Microsecond).UTC(),
		time.Date(1900, 1, 1, 0, 0, 0, 1000, time.UTC), time.Date(9999, 12, 31, 23, 30, 59, 999_999_000, time.UTC),
		now.In(time.FixedZone("elsewhere", 5*3600)).Add(time.Second),
	}
	ends := []time.Time{
		time.Unix(0, 0).UTC(), now.Add(time.Microsecond), time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
		now.In(time.FixedZone("elsewhere", 5*3600)).Add(time.Hour),
	}
	var events []journal.Event
	for i, v := range values {
		c := commitOf(times[i%len(times)],
			journal.Event{Stream: "s", Type: "a.made", Subject: "user:7", Refs: []string{"msg_1", "", "ref with, \"comma\""}, Schema: i, Data: json.RawMessage(v)},
			journal.Event{Stream: "s", Type: "a.bare"},
			journal.Write{Key: "plain", Value: json.RawMessage(v), Schema: i},
			journal.Write{Key: "expires", Value: json.RawMessage(v), Expires: ends[i%len(ends)]},
		)
		name := strings.ReplaceAll(v, "\x7f", "") // values may hold control characters, names may not
		c.Actor, c.Cause = "tool:Edit "+name, "cause "+strings.TrimSpace(name)
		r := e.mustCommit(c)
		events = append(events, eventsOf(c, r)...)
		for j, got := range e.get(space, "plain", "expires") {
			e.equal("record", got, recordsOf(c, r)[j])
			e.ok(got.Updated.Location() == time.UTC, "Updated is in %v, want UTC", got.Updated.Location())
		}
	}
	c := commitOf(journal.Write{Key: "notify", Value: json.RawMessage(`1`), Schema: 1 << 30, Expires: now.Add(time.Hour), Notify: true})
	r := e.mustCommit(c)
	e.equal("notify record", e.get(space, "notify"), recordsOf(c, r))
	got := e.readAll(space, journal.ReadQuery{})
	e.equal("journal", got, events)
	for _, ev := range got {
		e.ok(ev.Time.Location() == time.UTC, "Time is in %v, want UTC", ev.Time.Location())
	}
}

func commitCreates(e *env) {
	absent := journal.Head{Space: space}
	e.equal("head before", e.head(space), absent)
	e.conflict(journal.Check{Stream: "a", At: journal.Position{Epoch: "0001aaaaaaaa", Seq: 1}}, event("a", "a.made"))
	e.equal("head after a conflict", e.head(space), absent)
	r := e.must(event("a", "a.made"), event("a", "a.made"))
	e.ok(strings.HasPrefix(r.First.Epoch, "0001"), "epoch: got %q, want generation 0001", r.First.Epoch)
	_, err := journal.ParsePosition(r.Last.String())
	e.ok(err == nil, "position: got %v", err)
	e.equal("head after", e.head(space), journal.Head{
		Space: space, Oldest: r.First, Last: r.Last,
		Epochs: []journal.Epoch{{Name: r.Last.Epoch, First: 1, Last: 2}},
	})
	other := e.must("user:42", set("k", `1`))
	e.ok(other.Last.Epoch != r.Last.Epoch, "two spaces have the epoch %q", other.Last.Epoch)
	e.equal("Oldest without events", e.head("user:42").Oldest.Seq, uint64(1))
}

func commitReplaces(e *env) {
	e.must(journal.Write{Key: "k", Value: json.RawMessage(`{"a":1}`), Schema: 3, Expires: now.Add(time.Hour), Notify: true}, set("other", `1`))
	c := commitOf(now.Add(time.Second), set("k", `2`))
	r := e.mustCommit(c)
	e.equal("replaced, nothing of the old one left", e.get(space, "k"), recordsOf(c, r))
	e.must(journal.Write{Key: "k"}, journal.Write{Key: "absent"})
	e.equal("deleted", e.get(space, "k", "absent"), []journal.Record{{}, {}})
	e.equal("list", keysOf(e.listAll(space, journal.ListQuery{})), []string{"other"})
	e.must(journal.Check{Key: "k"}, set("k", `null`))
	e.equal("null is a value", string(e.get(space, "k")[0].Value), "null")
}

func commitClocks(e *env) {
	var want []journal.Event
	for _, d := range []time.Duration{0, -time.Hour, time.Hour, 0} {
		c := commitOf(now.Add(d), event("a", "a.made"), set("k", `1`))
		r := e.mustCommit(c)
		want = append(want, eventsOf(c, r)...)
		e.equal("record is the latest commit's", e.get(space, "k"), recordsOf(c, r))
	}
	e.equal("journal is in commit order", e.readAll(space, journal.ReadQuery{}), want)
}

func commitSpaces(e *env) {
	a := commitOf("project:a", event("s", "a.made"), set("k", `"a"`))
	b := commitOf("project:A", event("s", "b.made"), set("k", `"b"`))
	results := e.commit(a, b)
	for i, c := range []journal.Commit{a, b} {
		e.need(results[i].Conflict == nil, "got %v", results[i].Conflict)
		e.equal("seq", results[i].Last.Seq, uint64(1))
		e.equal("journal", e.readAll(c.Space, journal.ReadQuery{}), eventsOf(c, results[i]))
		e.equal("records", e.listAll(c.Space, journal.ListQuery{}), recordsOf(c, results[i]))
	}
	e.unchanged("project:a", func() { e.must("project:A", event("s", "b.made"), journal.Write{Key: "k"}) })
}

func commitCancelled(e *env) {
	e.must(set("k", `0`))
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	c := commitOf(event("a", "a.made"), set("k", `1`))
	_, err := e.b.Commit(ctx, []journal.Commit{c})
	events := e.readAll(space, journal.ReadQuery{})
	value := string(e.get(space, "k")[0].Value)
	e.ok(len(events) == 1 == (value == "1"), "half of it happened: %d events, value %s", len(events), value)
	e.ok(err != nil || value == "1", "acknowledged, but it did not happen")
	e.must(event("a", "a.made"))
}

// commitBytes commits JSON that encoders write in different ways.
func commitBytes(e *env) {
	for i, text := range []string{
		` { "z" : 1, "a" : [ 1.0, 1e2, -0, 0.10, 123456789012345678901234567890 ], "a" : null } `,
		`"<a href=\"x\">&\u003c\/\/\u2028 \ud83d\ude00😀é\u00e9\u0065\u0301"`,
		"{\"\u2028\":\"\u2029\",\"\":[[],{},\"\\b\\f\\n\\r\\t\"]}", `1E400`, `[ true , false , null ]`,
	} {
		data, err := journal.CompactJSON("data", "", []byte(text), journal.MaxDepth)
		e.need(err == nil, "compact %s: %v", text, err)
		key := fmt.Sprint("bytes", i)
		ev := event("bytes", "bytes.made")
		ev.Data = data
		r := e.mustCommit(commitOf(ev, set(key, string(data))))
		page := e.readPage(space, journal.ReadQuery{Stream: "bytes", Backward: true, Limit: 1})
		e.equal("event at "+r.Last.String(), string(page.Events[0].Data), string(data))
		e.equal("record", string(e.get(space, key)[0].Value), string(data))
		e.equal("listed record", string(e.list(space, journal.ListQuery{After: key[:len(key)-1], Limit: i + 1})[i].Value), string(data))
	}
}

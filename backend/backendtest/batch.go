package backendtest

import (
	"fmt"

	"github.com/thole-dev/thole/journal"
)

func batchCases() []testCase {
	return []testCase{
		{"batch/a conflict fails no other commit", batchIndependent},
		{"batch/a commit that cannot be taken fails no other", batchRefused},
		{"batch/an earlier commit is visible to the checks of a later one", batchVisible},
		{"batch/a failed commit is invisible to later ones", batchFailedInvisible},
		{"batch/results are in the order of the commits", batchOrder},
		{"batch/an empty batch does nothing", batchEmpty},
		{"batch/a large batch is applied as one by one", batchLarge},
	}
}

func batchIndependent(e *env) {
	never := journal.Check{Key: "k", At: journal.Position{Epoch: "0001aaaaaaaa", Seq: 9}}
	batch := []journal.Commit{
		commitOf(event("a", "a.made"), set("a", `1`)),
		commitOf(never, event("bad", "a.made"), set("bad", `1`)),
		commitOf(event("b", "a.made"), set("b", `1`)),
		commitOf("user:42", never, event("bad", "a.made")),
		commitOf("user:42", event("c", "a.made")),
	}
	r := e.commit(batch...)
	for i, wantSeq := range []uint64{1, 0, 2, 0, 1} {
		e.ok((r[i].Conflict != nil) == (wantSeq == 0), "commit %d: got conflict %v", i, r[i].Conflict)
		e.equal(fmt.Sprint("seq of commit ", i), r[i].Last.Seq, wantSeq)
	}
	want := append(eventsOf(batch[0], r[0]), eventsOf(batch[2], r[2])...)
	e.equal("journal", e.readAll(space, journal.ReadQuery{}), want)
	e.equal("records", keysOf(e.listAll(space, journal.ListQuery{})), []string{"a", "b"})
	e.equal("other space", e.readAll("user:42", journal.ReadQuery{}), eventsOf(batch[4], r[4]))
}

// batchRefused commits names that are not UTF-8, which an engine may accept or refuse.
func batchRefused(e *env) {
	for _, change := range []func(c *journal.Commit){
		func(c *journal.Commit) { c.Events[0].Stream = "\xff" },
		func(c *journal.Commit) { c.Writes[0].Key = "\xff" },
		func(c *journal.Commit) { c.Actor = "\xff" },
	} {
		bad := commitOf(event("bad", "a.made"), set("bad", `1`))
		change(&bad)
		batch := []journal.Commit{commitOf(event("a", "a.made"), set("a", `1`)), bad, commitOf("user:42", event("b", "b.made")), commitOf(event("c", "a.made"))}
		before := e.readAll(space, journal.ReadQuery{})
		var want []journal.Event
		for i, r := range e.commit(batch...) {
			refused := i == 1 && r.Err != nil
			e.ok(r.Conflict == nil && (refused || r.Err == nil), "commit %d: got %v, %v; want success", i, r.Conflict, r.Err)
			e.ok(refused == r.Last.IsZero(), "commit %d: got position %v and error %v", i, r.Last, r.Err)
			if refused {
				e.is("a name that is not UTF-8", r.Err, journal.ErrInvalid)
			} else if batch[i].Space == space && r.Err == nil {
				want = append(want, eventsOf(batch[i], r)...)
			}
		}
		e.equal("journal", e.readAll(space, journal.ReadQuery{})[len(before):], want)
	}
}

func batchVisible(e *env) {
	base := e.must(event("s", "s.made"), set("k", `0`)).Last
	r := e.commit(
		commitOf(journal.Check{Stream: "s", At: base}, event("s", "s.seen"), set("k", `1`)),
		commitOf(journal.Check{Stream: "s", At: base}, event("s", "s.seen")),
		commitOf(journal.Check{Stream: "s", At: seq(base, 1)}, journal.Check{Key: "k", At: seq(base, 1)}, journal.Write{Key: "k"}),
		commitOf(journal.Check{Key: "k", At: seq(base, 1)}, set("k", `2`)),
		commitOf(journal.Check{Key: "k"}, set("k", `3`)),
	)
	for i, fails := range []bool{false, true, false, true, false} {
		e.ok((r[i].Conflict != nil) == fails, "commit %d: got conflict %v, want one: %v", i, r[i].Conflict, fails)
	}
	e.need(!e.Failed(), "the rest needs these results")
	e.equal("what was there for a stream", r[1].Conflict.Actual, seq(base, 1))
	e.equal("what was there for a deleted record", r[3].Conflict.Actual, journal.Position{})
	e.equal("record", string(e.get(space, "k")[0].Value), "3")
}

func batchFailedInvisible(e *env) {
	never := journal.Check{Stream: "s", At: journal.Position{Epoch: "0001aaaaaaaa", Seq: 9}}
	r := e.commit(
		commitOf(never, event("t", "s.made"), set("k", `1`)),
		commitOf(journal.Check{Stream: "t"}, journal.Check{Key: "k"}, event("s", "s.made")),
	)
	e.ok(r[0].Conflict != nil, "first: got success")
	e.ok(r[1].Conflict == nil, "second: got conflict %v", r[1].Conflict)
	e.equal("seq", r[1].Last.Seq, uint64(1))
}

func batchOrder(e *env) {
	var batch []journal.Commit
	for i := range 30 {
		batch = append(batch, commitOf(fmt.Sprintf("user:%d", i%3), event(fmt.Sprint("s", i), "s.made"), set(fmt.Sprint("k", i), fmt.Sprint(i))))
	}
	for i, r := range e.commit(batch...) {
		e.need(r.Conflict == nil, "got %v", r.Conflict)
		e.equal("seq", r.Last.Seq, uint64(i/3+1))
		e.equal("record", e.get(batch[i].Space, fmt.Sprint("k", i)), recordsOf(batch[i], r))
	}
}

func batchEmpty(e *env) {
	e.equal("results", len(e.commit()), 0)
	e.equal("spaces", e.spaces(journal.SpacesQuery{}), []string{})
}

func batchLarge(e *env) {
	const n = 600
	var batch []journal.Commit
	for i := range n {
		c := commitOf(event("s", "s.made"), set("k", fmt.Sprint(i)))
		if i%10 == 9 {
			c.Checks = []journal.Check{{Key: "k"}} // the first commit made it
		}
		batch = append(batch, c)
	}
	next := uint64(1)
	for i, r := range e.commit(batch...) {
		if i%10 == 9 {
			e.ok(r.Conflict != nil, "commit %d: got success", i)
			continue
		}
		e.ok(r.Conflict == nil && r.First.Seq == next && r.Last.Seq == next, "commit %d: got %v, want seq %d", i, r, next)
		next++
	}
}

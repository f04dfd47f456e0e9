package backendtest

import (
	"github.com/thole-dev/thole/journal"
)

func checkCases() []testCase {
	return []testCase{
		{"check/a stream's version is the position of its last event", checkStream},
		{"check/a record's version is the last position of its commit", checkRecord},
		{"check/a conflict says what was wanted and what was there", checkConflict},
		{"check/a failed check changes nothing", checkAtomic},
		{"check/checks are evaluated in order and the first failure is reported", checkOrder},
		{"check/every check is evaluated", checkEvery},
		{"check/streams and records are different names", checkNames},
		{"check/a position of another epoch does not hold", checkEpoch},
		{"check/in a space that does not exist everything is absent", checkNoSpace},
	}
}

func checkStream(e *env) {
	e.must(journal.Check{Stream: "s"}, event("s", "s.made"))
	r := e.must(event("s", "s.seen"), event("other", "s.seen"), event("s", "s.seen"), event("other", "s.seen"))
	e.must(set("k", `1`)) // moves the head, not the stream
	at := seq(r.First, 2)
	for _, wrong := range []journal.Position{{}, r.First, r.Last, seq(r.First, 1), seq(r.Last, 1)} {
		c := e.conflict(journal.Check{Stream: "s", At: wrong}, event("s", "s.seen"))
		e.equal("actual", c.Actual, at)
	}
	e.must(journal.Check{Stream: "s", At: at}, journal.Check{Stream: "other", At: r.Last}, event("s", "s.seen"))
}

func checkRecord(e *env) {
	e.must(journal.Check{Key: "k"}, set("k", `1`))
	r := e.must(event("s", "s.made"), event("s", "s.made"), set("k", `2`), set("l", `2`))
	e.must(event("s", "s.made"), set("other", `1`))
	e.equal("versions", []journal.Position{e.get(space, "k")[0].Version, e.get(space, "l")[0].Version}, []journal.Position{r.Last, r.Last})
	for _, wrong := range []journal.Position{{}, r.First, seq(r.Last, 1), seq(r.First, -1)} {
		c := e.conflict(journal.Check{Key: "k", At: wrong}, set("k", `3`))
		e.equal("actual", c.Actual, r.Last)
	}
	e.must(journal.Check{Key: "k", At: r.Last}, journal.Write{Key: "k"})
	e.equal("deleted", e.conflict(journal.Check{Key: "k", At: r.Last}, set("k", `3`)).Actual, journal.Position{})
	e.must(journal.Check{Key: "k"}, set("k", `4`))
}

func checkConflict(e *env) {
	r := e.must(event("s", "s.made"), set("k", `1`))
	wanted := journal.Check{Key: "k", At: journal.Position{Epoch: r.Last.Epoch, Seq: 7}}
	c := e.conflict(wanted, set("k", `2`))
	e.equal("conflict", *c, journal.ConflictError{Space: space, Check: wanted, Actual: r.Last})
	wanted = journal.Check{Stream: "s"}
	c = e.conflict(wanted, set("k", `2`))
	e.equal("conflict", *c, journal.ConflictError{Space: space, Check: wanted, Actual: r.Last})
}

func checkAtomic(e *env) {
	r := e.must(event("s", "s.made"), set("k", `1`), set("gone", `1`))
	e.unchanged(space, func() {
		e.conflict(
			journal.Check{Stream: "s", At: r.Last}, journal.Check{Key: "k"},
			event("s", "s.seen"), event("new", "s.seen"),
			set("k", `2`), set("new", `2`), journal.Write{Key: "gone"},
		)
	})
	e.equal("next seq", e.must(event("s", "s.seen")).First.Seq, r.Last.Seq+1)
}

func checkOrder(e *env) {
	r := e.must(event("s", "s.made"), set("k", `1`))
	holds := journal.Check{Stream: "s", At: r.Last}
	for _, order := range [][]journal.Check{
		{holds, {Key: "k"}, {Stream: "s"}},
		{{Stream: "s"}, holds, {Key: "k"}},
		{{Key: "absent", At: r.Last}, {Key: "k"}, {Stream: "s"}},
		{holds, {Key: "k", At: r.Last}, {Stream: "absent", At: r.Last}, {Key: "k"}},
	} {
		var first journal.Check
		for _, k := range order {
			if k != holds && k != (journal.Check{Key: "k", At: r.Last}) {
				first = k
				break
			}
		}
		c := commitOf(event("s", "s.seen"))
		c.Checks = order
		got := e.commit(c)[0].Conflict
		e.need(got != nil, "checks %v: got success", order)
		e.equal("first failure", got.Check, first)
	}
}

func checkEvery(e *env) {
	r := e.must(event("s", "s.made"), set("k", `1`))
	holds := []journal.Check{{Stream: "s", At: r.Last}, {Key: "k", At: r.Last}, {Key: "absent"}, {Stream: "absent"}}
	fails := []journal.Check{{Stream: "s"}, {Key: "k"}, {Key: "absent", At: r.Last}, {Stream: "absent", At: r.Last}}
	for i := range holds {
		c := commitOf(event("t", "s.seen"), set("t", `1`))
		c.Checks = append([]journal.Check{}, holds...)
		c.Checks[i] = fails[i]
		got := e.commit(c)[0].Conflict
		e.need(got != nil && got.Check == fails[i], "check %d of %d: got conflict %v, want it", i, len(holds), got)
	}
	c := commitOf(event("t", "s.seen"))
	c.Checks = holds
	e.mustCommit(c)
}

func checkNames(e *env) {
	r := e.must(event("stream", "s.made"), set("record", `1`))
	e.must(journal.Check{Key: "stream"}, journal.Check{Stream: "record"}, event("t", "s.made"))
	e.must(journal.Check{Key: "Record"}, journal.Check{Stream: "Stream"}, journal.Check{Key: "record "}, journal.Check{Stream: "stream/"}, event("t", "s.made"))
	e.equal("key", e.conflict(journal.Check{Key: "stream", At: r.Last}, event("t", "s.made")).Actual, journal.Position{})
	e.equal("stream", e.conflict(journal.Check{Stream: "record", At: r.Last}, event("t", "s.made")).Actual, journal.Position{})
}

func checkEpoch(e *env) {
	r := e.must(event("s", "s.made"), set("k", `1`))
	foreign := journal.Position{Epoch: "0001ffffffff", Seq: r.Last.Seq}
	if r.Last.Epoch == foreign.Epoch {
		foreign.Epoch = "0001fffffffe"
	}
	e.equal("stream", e.conflict(journal.Check{Stream: "s", At: foreign}, event("s", "s.seen")).Actual, r.Last)
	e.equal("record", e.conflict(journal.Check{Key: "k", At: foreign}, set("k", `2`)).Actual, r.Last)
}

func checkNoSpace(e *env) {
	at := journal.Position{Epoch: "0001aaaaaaaa", Seq: 1}
	for _, k := range []journal.Check{{Stream: "s", At: at}, {Key: "k", At: at}} {
		e.equal("conflict", *e.conflict(k, event("s", "s.made")), journal.ConflictError{Space: space, Check: k})
	}
	e.equal("spaces", e.spaces(journal.SpacesQuery{}), []string{})
	e.must(journal.Check{Stream: "s"}, journal.Check{Key: "k"}, event("s", "s.made"))
}

package backendtest

import (
	"github.com/thole-dev/thole"
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
	e.must(thole.Check{Stream: "s"}, event("s", "s.made"))
	r := e.must(event("s", "s.seen"), event("other", "s.seen"), event("s", "s.seen"), event("other", "s.seen"))
	e.must(set("k", `1`)) // moves the head, not the stream
	at := seq(r.First, 2)
	for _, wrong := range []thole.Position{{}, r.First, r.Last, seq(r.First, 1), seq(r.Last, 1)} {
		c := e.conflict(thole.Check{Stream: "s", At: wrong}, event("s", "s.seen"))
		e.equal("actual", c.Actual, at)
	}
	e.must(thole.Check{Stream: "s", At: at}, thole.Check{Stream: "other", At: r.Last}, event("s", "s.seen"))
}

func checkRecord(e *env) {
	e.must(thole.Check{Key: "k"}, set("k", `1`))
	r := e.must(event("s", "s.made"), event("s", "s.made"), set("k", `2`), set("l", `2`))
	e.must(event("s", "s.made"), set("other", `1`))
	e.equal("versions", []thole.Position{e.get(space, "k")[0].Version, e.get(space, "l")[0].Version}, []thole.Position{r.Last, r.Last})
	for _, wrong := range []thole.Position{{}, r.First, seq(r.Last, 1), seq(r.First, -1)} {
		c := e.conflict(thole.Check{Key: "k", At: wrong}, set("k", `3`))
		e.equal("actual", c.Actual, r.Last)
	}
	e.must(thole.Check{Key: "k", At: r.Last}, thole.Write{Key: "k"})
	e.equal("deleted", e.conflict(thole.Check{Key: "k", At: r.Last}, set("k", `3`)).Actual, thole.Position{})
	e.must(thole.Check{Key: "k"}, set("k", `4`))
}

func checkConflict(e *env) {
	r := e.must(event("s", "s.made"), set("k", `1`))
	wanted := thole.Check{Key: "k", At: thole.Position{Epoch: r.Last.Epoch, Seq: 7}}
	c := e.conflict(wanted, set("k", `2`))
	e.equal("conflict", *c, thole.ConflictError{Space: space, Check: wanted, Actual: r.Last})
	wanted = thole.Check{Stream: "s"}
	c = e.conflict(wanted, set("k", `2`))
	e.equal("conflict", *c, thole.ConflictError{Space: space, Check: wanted, Actual: r.Last})
}

func checkAtomic(e *env) {
	r := e.must(event("s", "s.made"), set("k", `1`), set("gone", `1`))
	e.unchanged(space, func() {
		e.conflict(
			thole.Check{Stream: "s", At: r.Last}, thole.Check{Key: "k"},
			event("s", "s.seen"), event("new", "s.seen"),
			set("k", `2`), set("new", `2`), thole.Write{Key: "gone"},
		)
	})
	e.equal("next seq", e.must(event("s", "s.seen")).First.Seq, r.Last.Seq+1)
}

func checkOrder(e *env) {
	r := e.must(event("s", "s.made"), set("k", `1`))
	holds := thole.Check{Stream: "s", At: r.Last}
	for _, order := range [][]thole.Check{
		{holds, {Key: "k"}, {Stream: "s"}},
		{{Stream: "s"}, holds, {Key: "k"}},
		{{Key: "absent", At: r.Last}, {Key: "k"}, {Stream: "s"}},
		{holds, {Key: "k", At: r.Last}, {Stream: "absent", At: r.Last}, {Key: "k"}},
	} {
		var first thole.Check
		for _, k := range order {
			if k != holds && k != (thole.Check{Key: "k", At: r.Last}) {
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
	holds := []thole.Check{{Stream: "s", At: r.Last}, {Key: "k", At: r.Last}, {Key: "absent"}, {Stream: "absent"}}
	fails := []thole.Check{{Stream: "s"}, {Key: "k"}, {Key: "absent", At: r.Last}, {Stream: "absent", At: r.Last}}
	for i := range holds {
		c := commitOf(event("t", "s.seen"), set("t", `1`))
		c.Checks = append([]thole.Check{}, holds...)
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
	e.must(thole.Check{Key: "stream"}, thole.Check{Stream: "record"}, event("t", "s.made"))
	e.must(thole.Check{Key: "Record"}, thole.Check{Stream: "Stream"}, thole.Check{Key: "record "}, thole.Check{Stream: "stream/"}, event("t", "s.made"))
	e.equal("key", e.conflict(thole.Check{Key: "stream", At: r.Last}, event("t", "s.made")).Actual, thole.Position{})
	e.equal("stream", e.conflict(thole.Check{Stream: "record", At: r.Last}, event("t", "s.made")).Actual, thole.Position{})
}

func checkEpoch(e *env) {
	r := e.must(event("s", "s.made"), set("k", `1`))
	foreign := thole.Position{Epoch: "0001ffffffff", Seq: r.Last.Seq}
	if r.Last.Epoch == foreign.Epoch {
		foreign.Epoch = "0001fffffffe"
	}
	e.equal("stream", e.conflict(thole.Check{Stream: "s", At: foreign}, event("s", "s.seen")).Actual, r.Last)
	e.equal("record", e.conflict(thole.Check{Key: "k", At: foreign}, set("k", `2`)).Actual, r.Last)
}

func checkNoSpace(e *env) {
	at := thole.Position{Epoch: "0001aaaaaaaa", Seq: 1}
	for _, k := range []thole.Check{{Stream: "s", At: at}, {Key: "k", At: at}} {
		e.equal("conflict", *e.conflict(k, event("s", "s.made")), thole.ConflictError{Space: space, Check: k})
	}
	e.equal("spaces", e.spaces(thole.SpacesQuery{}), []string{})
	e.must(thole.Check{Stream: "s"}, thole.Check{Key: "k"}, event("s", "s.made"))
}

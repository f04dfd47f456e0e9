package backendtest

import (
	"fmt"

	"github.com/thole-dev/thole/journal"
)

func reopenCases() []testCase {
	return []testCase{
		{"reopen/all that was acknowledged is there", reopenAll},
		{"reopen/the last commit is there", reopenLast},
		{"reopen/commits and checks go on where they were", reopenContinues},
		{"reopen/what was loaded stays, what was not done stays hidden", reopenLoad},
	}
}

// reopenClosed is reopen after the case closed the backend itself. The outcome of a
// commit that was running is then unknown.
func (e *env) reopenClosed() {
	e.Helper()
	e.b.history.loosen(space)
	e.reopen()
}

func reopenAll(e *env) {
	if e.lacks(Reopening) {
		return
	}
	for round := range 3 {
		e.journal(8)
		e.must(set(fmt.Sprint("k", round), `1`), expiring(fmt.Sprint("x", round), due, round == 1), journal.Write{Key: fmt.Sprint("k", round-1)})
		e.must("user:42", event("s", "s.made"))
		want, other := e.state(space), e.state("user:42")
		e.reopen()
		e.equal("state", e.state(space), want)
		e.equal("other space", e.state("user:42"), other)
		e.equal("spaces", e.spaces(journal.SpacesQuery{}), []string{space, "user:42"})
		e.equal("spaces due", e.spaces(journal.SpacesQuery{DueBy: due}), []string{space})
	}
}

func reopenLast(e *env) {
	if e.lacks(Reopening) {
		return
	}
	for i := range 5 {
		c := commitOf(event("s", "s.made"), set("k", fmt.Sprint(i)))
		r := e.mustCommit(c)
		e.reopen()
		e.equal("event", e.readPage(space, journal.ReadQuery{Backward: true, Limit: 1}).Events, eventsOf(c, r))
		e.equal("record", e.get(space, "k"), recordsOf(c, r))
		e.equal("head", e.head(space).Last, r.Last)
	}
}

func reopenContinues(e *env) {
	if e.lacks(Reopening) {
		return
	}
	r := e.must(event("s", "s.made"), event("t", "s.made"), set("k", `1`), expiring("x", due, true))
	e.reopen()
	e.conflict(journal.Check{Stream: "s", At: r.Last}, event("s", "s.seen"))
	e.conflict(journal.Check{Key: "k"}, set("k", `2`))
	e.ok(e.conflict(later, set("x", `2`)).Expired, "a notify record does not expire after reopen")
	next := e.must(journal.Check{Stream: "s", At: r.First}, journal.Check{Stream: "t", At: r.Last}, journal.Check{Key: "k", At: r.Last}, event("s", "s.seen"), set("k", `2`))
	e.equal("next position", next.First, seq(r.Last, 1))
	e.equal("a cursor from before", len(e.readAll(space, journal.ReadQuery{After: r.Last})), 1)
}

func reopenLoad(e *env) {
	if e.lacks(Reopening) {
		return
	}
	c := twoEpochs("user:1")
	e.load("user:1", c)
	half := twoEpochs("user:2")
	half.Done = false
	e.load("user:2", half)
	e.reopen()
	e.equal("loaded", e.state("user:1"), stateOf(c))
	e.equal("half loaded", e.head("user:2"), journal.Head{Space: "user:2"})
	e.equal("spaces", e.spaces(journal.SpacesQuery{}), []string{"user:1"})
	e.must("user:1", journal.Check{Key: "z", At: c.Records[0].Version}, event("s", "s.made"))
	for _, part := range parts(half) {
		e.load("user:2", part)
	}
	e.equal("loaded after all", e.state("user:2"), stateOf(twoEpochs("user:2")))
}

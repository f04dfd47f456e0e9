package backendtest

import (
	"errors"
	"fmt"

	"github.com/thole-dev/thole/journal"
)

func cursorCases() []testCase {
	return []testCase{
		{"cursor/every position of the current epoch resumes", cursorResumes},
		{"cursor/beyond the head is trimmed", cursorBeyond},
		{"cursor/of a foreign epoch is trimmed", cursorForeign},
		{"cursor/older than what is kept is trimmed", cursorOld},
		{"cursor/of a space that is gone or new again is trimmed", cursorGone},
		{"cursor/in an earlier epoch resumes up to that epoch's end", cursorEpochs},
	}
}

// cannotResume reads from p in both directions, which must fail with a TrimmedError,
// never skip or repeat events.
func (e *env) cannotResume(name string, p journal.Position) {
	e.Helper()
	for _, q := range []journal.ReadQuery{{After: p}, {After: p, Backward: true}, {After: p, Stream: "s", Limit: 1}} {
		page, err := e.b.Read(e.ctx, name, q)
		what := fmt.Sprintf("read %s %+v", name, q)
		e.ok(len(page.Events) == 0, "%s: got %d events", what, len(page.Events))
		e.trimmed(what, err, p)
		var te *journal.TrimmedError
		if errors.As(err, &te) {
			head := e.head(name)
			e.equal(what+": what is kept", []journal.Position{te.Oldest, te.Last}, []journal.Position{head.Oldest, head.Last})
			e.equal(what+": space", te.Space, name)
		}
	}
}

func cursorResumes(e *env) {
	all := e.journal(12)
	for i := uint64(0); i <= e.head(space).Last.Seq; i++ {
		q := journal.ReadQuery{After: journal.Position{Epoch: all[0].Position.Epoch, Seq: i}}
		e.equal(fmt.Sprint("after seq ", i), e.readAll(space, q), selected(all, q))
	}
}

func cursorBeyond(e *env) {
	e.journal(4)
	last := e.head(space).Last
	e.cannotResume(space, seq(last, 1))
	e.cannotResume(space, seq(last, 1000))
	e.cannotResume(space, journal.Position{Epoch: last.Epoch, Seq: journal.MaxSeq})
	e.must(event("s", "s.made"))
	e.equal("the position exists now", len(e.readAll(space, journal.ReadQuery{After: seq(last, 1)})), 0)
}

func cursorForeign(e *env) {
	all := e.journal(6)
	for _, epoch := range []string{"0000aaaaaaaa", "0001aaaaaaaa", "0001ffffffff", "0002aaaaaaaa", "9999ffffffff"} {
		if epoch != all[0].Position.Epoch {
			e.cannotResume(space, journal.Position{Epoch: epoch, Seq: 0})
			e.cannotResume(space, journal.Position{Epoch: epoch, Seq: 3})
		}
	}
}

func cursorOld(e *env) {
	all := e.journal(10)
	before := all[4].Position
	e.purge(space, journal.Purge{Before: before})
	for i := uint64(0); i <= e.head(space).Last.Seq; i++ {
		p := journal.Position{Epoch: before.Epoch, Seq: i}
		if i+1 < before.Seq {
			e.cannotResume(space, p)
			continue
		}
		q := journal.ReadQuery{After: p}
		e.equal(fmt.Sprint("after seq ", i), e.readAll(space, q), selected(all[4:], q))
	}
	e.equal("from the oldest", e.readAll(space, journal.ReadQuery{}), all[4:])
}

func cursorGone(e *env) {
	p := e.must(event("s", "s.made")).Last
	e.cannotResume("user:42", p)
	e.purge(space, journal.Purge{All: true})
	e.cannotResume(space, p)
	e.must(event("s", "s.made"), event("s", "s.made"))
	e.cannotResume(space, p)
	e.cannotResume(space, seq(p, -1))
}

func cursorEpochs(e *env) {
	chunk := twoEpochs("user:42")
	e.load("user:42", chunk)
	one, two := chunk.Head.Epochs[0], chunk.Head.Epochs[1]
	for _, ep := range chunk.Head.Epochs {
		for s := ep.First - 1; s <= ep.Last; s++ {
			q := journal.ReadQuery{After: journal.Position{Epoch: ep.Name, Seq: s}}
			e.equal(fmt.Sprintf("after %+v", q.After), e.readAll("user:42", q), selected(chunk.Events, q))
		}
	}
	e.cannotResume("user:42", journal.Position{Epoch: one.Name, Seq: one.Last + 1}) // the lost tail
	e.cannotResume("user:42", journal.Position{Epoch: two.Name, Seq: two.First - 2})
	e.cannotResume("user:42", journal.Position{Epoch: two.Name, Seq: two.Last + 1})
}

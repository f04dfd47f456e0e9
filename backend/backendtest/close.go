package backendtest

import (
	"errors"
	"fmt"

	"github.com/thole-dev/thole/journal"
	"go.uber.org/goleak"
)

func closeCases() []testCase {
	return []testCase{
		{"close/is idempotent and ends every method with ErrClosed", closeMethods},
		{"close/commits that run meanwhile succeed or are ErrClosed", closeRunning},
		{"close/leaves no goroutine", closeLeaves},
	}
}

func closeMethods(e *env) {
	e.must(event("s", "s.made"), set("k", `1`))
	for range 3 {
		e.ok(e.b.Close() == nil, "close: got an error")
	}
	_, err := e.b.Commit(e.ctx, []journal.Commit{commitOf(event("s", "s.made"))})
	e.is("commit", err, journal.ErrClosed)
	_, err = e.b.Get(e.ctx, space, "k")
	e.is("get", err, journal.ErrClosed)
	_, err = e.b.List(e.ctx, space, journal.ListQuery{})
	e.is("list", err, journal.ErrClosed)
	_, err = e.b.Read(e.ctx, space, journal.ReadQuery{})
	e.is("read", err, journal.ErrClosed)
	_, err = e.b.Heads(e.ctx, space)
	e.is("heads", err, journal.ErrClosed)
	_, err = e.b.Heads(e.ctx)
	e.is("heads of nothing", err, journal.ErrClosed)
	_, err = e.b.Spaces(e.ctx, journal.SpacesQuery{})
	e.is("spaces", err, journal.ErrClosed)
	e.is("load", e.b.Load(e.ctx, "user:1", twoEpochs("user:1")), journal.ErrClosed)
	e.is("purge", e.b.Purge(e.ctx, space, journal.Purge{All: true}), journal.ErrClosed)
}

func closeRunning(e *env) {
	const workers = 6
	started := make(chan struct{}, workers)
	counts := make([]int, workers)
	e.parallel(workers+1, func(i int) error {
		if i == workers {
			for range workers {
				<-started
			}
			return e.b.Close()
		}
		for n := range 1_000_000 {
			results, err := e.b.Commit(e.ctx, []journal.Commit{commitOf(event(fmt.Sprint("s", i), "s.made"))})
			if n == 0 {
				started <- struct{}{}
			}
			if errors.Is(err, journal.ErrClosed) {
				return nil
			}
			if err != nil {
				return err
			}
			if results[0].Conflict != nil {
				return results[0].Conflict
			}
			counts[i]++
		}
		return errors.New("commits go on after close")
	})
	if e.harness.Reopen == nil {
		return
	}
	e.reopenClosed()
	for i, acknowledged := range counts {
		got := len(e.readAll(space, journal.ReadQuery{Stream: fmt.Sprint("s", i)}))
		e.ok(got >= acknowledged, "stream %d: got %d events after reopen, %d were acknowledged", i, got, acknowledged)
	}
}

func closeLeaves(e *env) {
	e.leavesNothing(func() {
		e.parallel(6, func(i int) error {
			_, err := e.b.Commit(e.ctx, []journal.Commit{commitOf(fmt.Sprint("user:", i), event("s", "s.made"), set("k", `1`))})
			return err
		})
		e.journal(4)
		e.readAll(space, journal.ReadQuery{})
		e.listAll(space, journal.ListQuery{})
		e.load("user:new", twoEpochs("user:new"))
		e.purge("user:new", journal.Purge{All: true})
	})
}

// leavesNothing calls do, closes the backend and checks that no goroutine that was
// started meanwhile is left.
func (e *env) leavesNothing(do func()) {
	e.Helper()
	before := goleak.IgnoreCurrent()
	do()
	e.need(e.b.Close() == nil, "close: got an error")
	err := goleak.Find(before)
	e.ok(err == nil, "after close: %v", err)
}

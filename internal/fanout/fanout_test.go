package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/internal/fanout"
	"github.com/thole-dev/thole/journal"
)

const name = "project:shop"

// space is a journal in memory and the Fanout that follows it.
type space struct {
	*fanout.Fanout
	head    journal.Head
	events  []journal.Event
	damaged []string // what Heads says of damaged spaces
	busy    uint64   // the number of the batch that is being committed

	// Called once each, when not nil, by the function of that name after it has read
	// what it returns.
	afterHead, afterHeads, afterRead func()

	headErr, readErr error
}

func open(t *testing.T) *space {
	sp := &space{head: journal.Head{Space: name}}
	sp.Fanout = fanout.New(fanout.Source{
		Head: func(context.Context, string) (journal.Head, error) {
			defer once(&sp.afterHead)
			return sp.readHead(), sp.headErr
		},
		Heads: func(context.Context, []string) ([]journal.Head, []string, error) {
			defer once(&sp.afterHeads)
			return []journal.Head{sp.readHead()}, sp.damaged, nil
		},
		Read: func(_ context.Context, _ string, q journal.ReadQuery) (page journal.Page, err error) {
			once(&sp.afterRead)
			for _, e := range sp.events {
				if e.Position.Compare(q.After) > 0 {
					page.Events = append(page.Events, e)
				}
			}
			return page, sp.readErr
		},
		Erased: func(context.Context, string) (journal.Position, error) { return journal.Position{}, nil },
		Lift:   func(*journal.Event) {},
		Busy:   func(string) uint64 { return sp.busy },
	}, 1<<20, slog.New(slog.DiscardHandler))
	t.Cleanup(sp.Close)
	return sp
}

func once(f *func()) {
	if g := *f; g != nil {
		*f = nil
		g()
	}
}

func (sp *space) readHead() journal.Head {
	h := sp.head
	h.Epochs = append([]journal.Epoch(nil), h.Epochs...)
	return h
}

// there commits an event for each number as another process does: without Committed.
func (sp *space) there(numbers ...int) (journal.Commit, journal.Result) {
	c := journal.Commit{Space: name}
	for _, n := range numbers {
		c.Events = append(c.Events, numbered(n))
	}
	res, err := sp.head.Advance(&c, journal.MaxSeq)
	if err != nil {
		panic(err)
	}
	for i := range c.Events {
		sp.events = append(sp.events, c.Event(i, res))
	}
	return c, res
}

// here commits an event for each number as this process does.
func (sp *space) here(numbers ...int) { sp.committed(sp.there(numbers...)) }

func (sp *space) committed(c journal.Commit, res journal.Result) {
	sp.Committed([]journal.Commit{c}, []journal.Result{res})
}

func (sp *space) broadcast(n int) { sp.Broadcast(name, numbered(n)) }

func (sp *space) catchUp(t *testing.T) { sp.CatchUp(t.Context(), []string{name}) }

func numbered(n int) journal.Event {
	return journal.Event{Stream: "app/x", Type: "x.y", Data: fmt.Append(nil, n)}
}

func (sp *space) watch(t *testing.T, opts fanout.Options) *fanout.Cursor {
	t.Helper()
	c, err := sp.Watch(t.Context(), name, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// receives fails the test unless the cursor delivers exactly the numbers in want, with
// a ~ before those of broadcasts. It must run in a synctest bubble.
func receives(t *testing.T, c *fanout.Cursor, want string) {
	t.Helper()
	var got []string
	for {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		out, err := c.Next(ctx)
		stop()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		for _, d := range out {
			if d.IsBroadcast() {
				got = append(got, "~"+string(d.Data))
			} else {
				got = append(got, string(d.Data))
			}
		}
	}
	if got := strings.Join(got, " "); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func (sp *space) hinted(t *testing.T, want bool) {
	t.Helper()
	if got := len(sp.Hinted()) == 1; got != want {
		t.Errorf("the space is hinted at: %t, want %t", got, want)
	}
}

func TestAHintForAllNamesEveryWatchedSpace(t *testing.T) {
	sp := open(t)
	sp.watch(t, fanout.Options{})
	sp.Hint("project:other")
	sp.hinted(t, false)
	sp.Hint("")
	sp.hinted(t, true)
}

func TestAConflictHintsAtNothing(t *testing.T) {
	sp := open(t)
	sp.watch(t, fanout.Options{})
	sp.here(1)
	c := journal.Commit{Space: name, Events: []journal.Event{numbered(2)}}
	sp.committed(c, journal.Result{Conflict: &journal.ConflictError{Space: name}})
	sp.hinted(t, false)
}

func TestABatchThatWasReadFromTheJournalIsNotDeliveredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := open(t)
		c := sp.watch(t, fanout.Options{})
		commit, res := sp.there(1)
		sp.catchUp(t)
		sp.committed(commit, res)
		receives(t, c, "1")
		sp.hinted(t, false)
	})
}

func TestABatchThatDoesNotFollowWaitsForTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := open(t)
		c := sp.watch(t, fanout.Options{})
		sp.there(1)
		sp.here(2)
		receives(t, c, "")
		sp.hinted(t, true)
		sp.catchUp(t)
		receives(t, c, "1 2")
	})
}

func TestACommitWithoutEventsMovesTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := open(t)
		c := sp.watch(t, fanout.Options{})
		sp.there()
		sp.catchUp(t)
		receives(t, c, "")
		if got := c.Position(); got != sp.head.Last {
			t.Errorf("an idle watch is at %s, want %s", got, sp.head.Last)
		}
		sp.here(1) // follows what was read
		receives(t, c, "1")
		sp.hinted(t, false)
	})
}

// A commit after a new watch has read the head and before the ring begins is in neither.
func TestACommitBeforeTheRingBeginsIsReadFromTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := open(t)
		sp.here(1)
		sp.afterHead = func() { sp.here(2) }
		c := sp.watch(t, fanout.Options{})
		sp.hinted(t, true)
		sp.catchUp(t)
		receives(t, c, "2")
	})
}

// The space changes its past after a new watch has read its head: that head is too old
// for the ring to begin with.
func TestAHeadFromBeforeAResetBeginsNoRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := open(t)
		sp.here(1)
		sp.afterHead = func() {
			sp.there(2)
			sp.Reset(name)
		}
		receives(t, sp.watch(t, fanout.Options{}), "2")
	})
}

func TestARefusedWatchLeavesNothing(t *testing.T) {
	sp := open(t)
	sp.here(1)
	if _, err := sp.Watch(t.Context(), name, fanout.Options{After: journal.Position{Epoch: "0001ffffffff", Seq: 9}}); !errors.Is(err, journal.ErrTrimmed) {
		t.Fatalf("got %v, want ErrTrimmed", err)
	}
	if n := sp.Watchers(name); n != 0 {
		t.Errorf("%d watchers are left", n)
	}
}

func TestADeliveryKeepsItsRefs(t *testing.T) {
	sp := open(t)
	c := sp.watch(t, fanout.Options{})
	commit, res := sp.there(1)
	commit.Events[0].Refs = []string{"was"}
	sp.committed(commit, res)
	commit.Events[0].Refs[0] = "is"
	if out, err := c.Next(t.Context()); err != nil || out[0].Refs[0] != "was" {
		t.Errorf("got %v, %v; want the refs that were committed", out, err)
	}
}

func TestWatchersOfADamagedSpaceAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := open(t)
		c := sp.watch(t, fanout.Options{})
		sp.here(1)
		receives(t, c, "1")
		sp.damaged, sp.headErr = []string{name}, journal.ErrCorrupt
		sp.catchUp(t)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := c.Next(ctx); !errors.Is(err, journal.ErrCorrupt) {
			t.Errorf("got %v, want ErrCorrupt", err)
		}
	})
}

// Each watcher then finds out from its own position whether it has lost something.
func TestAJournalThatWasTrimmedBelowTheRingIsReadFromTheWatchersPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := open(t)
		c := sp.watch(t, fanout.Options{})
		sp.here(1)
		receives(t, c, "1")
		sp.there(2)
		sp.readErr = &journal.TrimmedError{Space: name}
		sp.catchUp(t)
		sp.readErr = nil
		receives(t, c, "2")
	})
}

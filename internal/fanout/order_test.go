package fanout_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/internal/fanout"
	"github.com/thole-dev/thole/journal"
)

// These tests are about the order of events and broadcasts: a broadcast comes after
// every event that was acknowledged before it was sent, and before what its own process
// commits afterwards, unless an event of another process is in between.

// watched returns a space with an event and a watch that has received it.
func watched(t *testing.T) (*space, *fanout.Cursor) {
	sp := open(t)
	c := sp.watch(t, fanout.Options{})
	sp.here(0)
	receives(t, c, "0")
	return sp, c
}

func TestAnEventThatWaitsBehindABroadcastComesBeforeALaterOneOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp, c := watched(t)
		sp.broadcast(9)
		sp.here(1)
		receives(t, c, "")
		sp.there(2)
		sp.catchUp(t)
		receives(t, c, "1 2 ~9")
	})
}

func TestABroadcastWaitsForAReadThatBeganAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp, c := watched(t)
		sp.broadcast(7)
		sp.afterHeads = func() {
			sp.there(1)
			sp.broadcast(8)
		}
		sp.catchUp(t)
		receives(t, c, "~7")
		sp.catchUp(t)
		receives(t, c, "1 ~8")
	})
}

// The batch that is being committed is this Store's, and its events belong after the
// broadcast that it sent before.
func TestABroadcastComesBeforeTheBatchThatIsBeingCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp, c := watched(t)
		sp.broadcast(9)
		sp.Hinted()
		sp.busy = 5
		commit, res := sp.there(1)
		sp.catchUp(t)
		receives(t, c, "")
		sp.committed(commit, res)
		sp.busy = 0
		sp.hinted(t, false)
		sp.BatchEnded()
		sp.hinted(t, true)
		sp.catchUp(t)
		receives(t, c, "~9 1")
	})
}

func TestABroadcastWaitsForOneBatchOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp, c := watched(t)
		sp.broadcast(9)
		sp.there(1)
		sp.busy = 5
		sp.catchUp(t)
		receives(t, c, "")
		sp.busy = 6
		sp.catchUp(t)
		receives(t, c, "1 ~9")
	})
}

func TestAnEventThatIsCommittedWhileTheJournalIsReadComesAfterTheBroadcast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp, c := watched(t)
		sp.there(1)
		sp.broadcast(9)
		sp.Hinted()
		var commit journal.Commit
		var res journal.Result
		sp.afterRead = func() { commit, res = sp.there(2) }
		sp.catchUp(t)
		receives(t, c, "1 ~9")
		sp.hinted(t, true)
		sp.committed(commit, res)
		receives(t, c, "2")
	})
}

func TestAnAdoptedEpochThatBeginsWhileTheJournalIsReadIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp, c := watched(t)
		sp.there(1)
		sp.afterRead = func() {
			next := journal.Epoch{Name: "0002aaaaaaaa", First: sp.head.Last.Seq + 1, Last: sp.head.Last.Seq, Adopted: true}
			sp.head.Epochs = append(sp.head.Epochs, next)
			sp.there(2)
		}
		sp.catchUp(t)
		receives(t, c, "1")
		sp.catchUp(t)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		var trimmed *journal.TrimmedError
		if out, err := c.Next(ctx); !errors.As(err, &trimmed) || !trimmed.Adopted {
			t.Errorf("got %v, %v; want that the space was adopted", out, err)
		}
		receives(t, c, "2")
	})
}

// A cursor that has read the journal beyond a broadcast does not receive it.
func TestABroadcastThatIsOlderThanTheCursorIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := open(t)
		sp.here(1, 2)
		c := sp.watch(t, fanout.Options{Oldest: true})
		sp.broadcast(7)
		sp.catchUp(t)
		sp.here(3)
		receives(t, c, "1 2 3")
	})
}

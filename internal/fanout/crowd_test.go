package fanout_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/thole-dev/thole/internal/fanout"
)

// Watchers are woken in a chain, which must not end with those that leave as they are woken.
// In each round all but one do.
func TestTheWatcherThatStaysIsWokenThoughAllOthersLeave(t *testing.T) {
	const watchers, rounds = 300, 20
	synctest.Test(t, func(t *testing.T) {
		sp := open(t)
		all := make([]*fanout.Cursor, watchers)
		for i := range all {
			all[i] = sp.watch(t, fanout.Options{})
		}
		for round := range rounds {
			staying, end := context.WithCancel(t.Context())
			leaving, leave := context.WithCancel(t.Context())
			var done sync.WaitGroup
			var last string // what the one that stays received
			for i, c := range all {
				done.Go(func() {
					ctx := leaving
					if i == round {
						ctx = staying
					}
					for {
						out, err := c.Next(ctx)
						if err != nil {
							return
						}
						if i == round {
							last = string(out[len(out)-1].Data)
						}
					}
				})
			}
			synctest.Wait() // all of them wait
			if round%2 == 0 {
				leave()
				sp.here(round)
			} else {
				sp.here(round)
				leave()
			}
			synctest.Wait() // if the chain broke, the one that stays is left waiting
			if last != strconv.Itoa(round) {
				t.Errorf("round %d: the one that stays received %q", round, last)
			}
			end()
			done.Wait()
		}
	})
}

func TestCloseEndsTheWatcherThatStaysThoughAllOthersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := open(t)
		leaving, leave := context.WithCancel(t.Context())
		ended := false
		var done sync.WaitGroup
		for i := range 100 {
			c := sp.watch(t, fanout.Options{})
			ctx := leaving
			if i == 0 {
				ctx = t.Context()
			}
			done.Go(func() {
				for {
					if _, err := c.Next(ctx); err != nil {
						if i == 0 {
							ended = true
						}
						return
					}
				}
			})
		}
		synctest.Wait()
		sp.Close()
		leave()
		synctest.Wait()
		if !ended {
			t.Fatal("a watcher still waits after Close")
		}
		done.Wait()
	})
}

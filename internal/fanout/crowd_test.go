package fanout_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/thole-dev/thole/internal/fanout"
)

// Watchers are woken in a chain, which must not end with one that leaves as it is woken.
func TestEachOfManyWatchersIsWokenThoughOthersLeave(t *testing.T) {
	const watchers, rounds = 300, 20
	synctest.Test(t, func(t *testing.T) {
		sp := open(t)
		type watcher struct {
			*fanout.Cursor
			got int
		}
		all := make([]*watcher, watchers)
		for i := range all {
			all[i] = &watcher{Cursor: sp.watch(t, fanout.Options{})}
		}
		for round := range rounds {
			leaving, leave := context.WithCancel(t.Context())
			var done sync.WaitGroup
			for i, w := range all {
				ctx := t.Context()
				if i%3 != round%3 {
					ctx = leaving
				}
				done.Go(func() {
					for w.got <= round {
						out, err := w.Next(ctx)
						if err != nil {
							return
						}
						w.got += len(out)
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
			synctest.Wait() // a chain that is broken leaves some waiting
			for i, w := range all {
				if i%3 == round%3 && w.got != round+1 {
					t.Fatalf("round %d: watcher %d has %d events, and waits", round, i, w.got)
				}
			}
			done.Wait()
		}
	})
}

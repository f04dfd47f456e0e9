package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/lock"
)

// A client repeats a call under its key while the first try still waits.
func TestARepeatedAcquireLeavesNoGhostInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := inMemory(t)
		locks := lock.In(sp)
		holder, err := locks.Acquire(t.Context(), "f", nil)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan *lock.Lock)
		for range 2 {
			go func() {
				ctx := thole.Operation(thole.WithIdempotencyKey(t.Context(), "k", "f"))
				l, err := locks.Acquire(ctx, "f", &lock.Options{Owner: "me", TTL: time.Minute, Wait: 5 * time.Second})
				if err != nil {
					t.Error(err)
				}
				got <- l
			}()
			synctest.Wait() // it is in the queue
		}
		if err := holder.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-got
		<-got
		recs, err := sp.List(t.Context(), thole.ListQuery{Prefix: "lock/"})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range recs {
			if r.Key != "lock/f/owner" && r.Key != "lock/f/beat" {
				t.Errorf("a ghost waits: %s %s", r.Key, r.Value)
			}
		}
	})
}

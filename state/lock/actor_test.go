package lock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/statetest"
)

func TestTheNameOfAnOwnerTakesNothingFromAnotherActor(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		vic, eve := lock.In(sp.As("user:vic")), lock.In(sp.As("user:eve"))
		for _, mode := range []lock.Mode{lock.Exclusive, lock.Intent} {
			opts := &lock.Options{Owner: "laptop", Mode: mode, Again: true}
			l, err := vic.Acquire(ctx, "deploy", opts)
			if err != nil {
				t.Fatal(err)
			}
			if err := errOf(eve.Acquire(ctx, "deploy", opts)); !errors.Is(err, thole.ErrConflict) {
				t.Errorf("%s: another actor under the owner's name: got %v, want ErrConflict", mode, err)
			}
			if err := l.Renew(ctx); err != nil {
				t.Errorf("%s: the holder renews: %v", mode, err)
			}
			again, err := vic.Acquire(ctx, "deploy", opts)
			if err != nil {
				t.Fatalf("%s: the same actor again: %v", mode, err)
			}
			if err := l.Renew(ctx); !errors.Is(err, thole.ErrFenced) {
				t.Errorf("%s: the earlier holder renews: got %v, want ErrFenced", mode, err)
			}
			if err := errOf(lock.In(sp.As("user:eve").Under(l.Fence)).Acquire(ctx, "deploy", opts)); err == nil {
				t.Errorf("%s: an old fence took the lock", mode)
			}
			proven, err := lock.In(sp.As("user:eve").Under(again.Fence)).Acquire(ctx, "deploy", opts)
			if err != nil {
				t.Fatalf("%s: another actor under the lock's fence: %v", mode, err)
			}
			if err := eve.Release(ctx, "deploy", proven.Fence); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestWaitingUnderTheNameOfAnOwnerIsNoDeadlockForThatOwner(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		vic, eve := lock.In(sp.As("user:vic")), lock.In(sp.As("user:eve"))
		acquire(t, vic, "a", "laptop")
		b := acquire(t, vic, "b", "desk")
		// Laptop would wait for b, whose holder then waits for a.
		waits := wait(t, eve, "b", "laptop", 1)
		if err := errOf(vic.Acquire(t.Context(), "a", &lock.Options{Owner: "desk", Wait: time.Millisecond})); errors.Is(err, thole.ErrDeadlock) || !errors.Is(err, thole.ErrConflict) {
			t.Errorf("a wait while another actor waits under the holder's name: got %v, want ErrConflict", err)
		}
		if err := b.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := <-waits; got.err != nil {
			t.Errorf("the one that waited: %v", got.err)
		}
		if err := errOf(eve.Acquire(t.Context(), "a", &lock.Options{Owner: "laptop", Wait: time.Millisecond})); errors.Is(err, thole.ErrDeadlock) {
			t.Errorf("a wait for a lock of another actor's owner of the same name: %v", err)
		}
	})
}

func TestALockWithoutAnActorIsNobodysButByFenceOrExpiry(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		// Earlier versions wrote it so.
		res, err := sp.Update(ctx, func(tx *thole.Tx) error {
			tx.Put("lock/f/owner", map[string]string{"holder": "a"}, nil)
			tx.Put("lock/f/beat", map[string]int{"ttl_ms": 3600000}, &thole.WriteOptions{Expires: tx.Now().Add(time.Hour)})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		opts := &lock.Options{Owner: "a", Again: true}
		if err := errOf(lock.In(sp).Acquire(ctx, "f", opts)); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("by its name: got %v, want ErrConflict", err)
		}
		fence := thole.Fence{Key: "lock/f/owner", Token: res.Last}
		if err := errOf(lock.In(sp.Under(fence)).Acquire(ctx, "f", opts)); err != nil {
			t.Errorf("by its fence: %v", err)
		}
	})
}

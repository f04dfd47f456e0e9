package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/statetest"
)

func TestMain(m *testing.M) { statetest.Main(m) }

func errOf[T any](_ T, err error) error { return err }

func acquire(t *testing.T, ls *lock.Locks, name, owner string) *lock.Lock {
	t.Helper()
	l, err := ls.Acquire(t.Context(), name, &lock.Options{Owner: owner})
	if err != nil {
		t.Fatalf("%s acquires %s: %v", owner, name, err)
	}
	return l
}

// until polls until the condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not reached: %s", what)
		}
	}
}

// waiters waits until n owners wait for the lock.
func waiters(t *testing.T, ls *lock.Locks, name string, want int) {
	t.Helper()
	until(t, fmt.Sprintf("%d wait for %s", want, name), func() bool {
		info, err := ls.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return len(info.Waiters) == want
	})
}

// write commits an event under the lock's fence.
func write(ctx context.Context, sp *thole.Space, l *lock.Lock) error {
	_, err := sp.Under(l.Fence).Update(ctx, func(tx *thole.Tx) error {
		tx.Put("app/x", l.Owner, nil)
		return nil
	})
	return err
}

type outcome struct {
	l   *lock.Lock
	err error
}

// wait acquires in the background and waits until it is n-th in the queue.
func wait(t *testing.T, ls *lock.Locks, name, owner string, n int) <-chan outcome {
	t.Helper()
	done := make(chan outcome, 1)
	go func() {
		l, err := ls.Acquire(t.Context(), name, &lock.Options{Owner: owner, Wait: -1})
		done <- outcome{l, err}
	}()
	waiters(t, ls, name, n)
	return done
}

func TestOneHoldsItAndOthersAreToldWho(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ls, ctx := lock.In(e.Space("project:shop")), t.Context()
		l := acquire(t, ls, "src/app.ts", "a")
		var held *lock.HeldError
		if err := errOf(ls.Acquire(ctx, "src/app.ts", &lock.Options{Owner: "b"})); !errors.As(err, &held) || held.Owner != "a" || !errors.Is(err, thole.ErrConflict) {
			t.Errorf("second owner: got %v, want to hear of a", err)
		}
		if err := errOf(ls.Acquire(ctx, "src/app.ts", &lock.Options{Owner: "b", Wait: 10 * time.Millisecond})); !errors.As(err, &held) {
			t.Errorf("second owner after a short wait: got %v, want to hear of a", err)
		}
		other := acquire(t, lock.In(e.Space("project:other")), "src/app.ts", "b")
		if err := ls.Release(ctx, "src/app.ts", other.Fence); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("release by another's fence: got %v, want ErrFenced", err)
		}
		page, err := ls.List(ctx, nil)
		if err != nil || len(page.Items) != 1 || page.Items[0].Holder.Token != l.Fence.Token || page.Items[0].Waiters != nil {
			t.Errorf("list: got %+v, %v", page, err)
		}
		for range 2 {
			if err := l.Release(ctx); err != nil {
				t.Errorf("release: %v", err)
			}
		}
		acquire(t, ls, "src/app.ts", "b")
		if err := l.Release(ctx); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("release by a replaced holder: got %v, want ErrFenced", err)
		}
	})
}

func TestWaitersAreServedInOrder(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ls, ctx := lock.In(e.Space("project:shop")), t.Context()
		l := acquire(t, ls, "f", "holder")
		var queue []<-chan outcome
		for i := range 8 {
			queue = append(queue, wait(t, ls, "f", fmt.Sprint(i), i+1))
		}
		// Nobody else gets it in between.
		if err := l.Release(ctx); err != nil {
			t.Fatal(err)
		}
		for i, w := range queue {
			got := <-w
			if got.err != nil || got.l.Owner != fmt.Sprint(i) {
				t.Fatalf("turn %d: got %+v, %v", i, got.l, got.err)
			}
			if i+1 < len(queue) {
				if err := errOf(ls.Acquire(ctx, "f", &lock.Options{Owner: "pusher"})); !errors.Is(err, thole.ErrConflict) {
					t.Fatalf("pushed in: %v", err)
				}
			}
			if err := got.l.Release(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if page, err := ls.List(ctx, nil); err != nil || len(page.Items) != 0 {
			t.Errorf("left over: %+v, %v", page, err)
		}
	})
}

func TestADeadHolderFreesAndALateOneIsFenced(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		ls := lock.In(sp)
		late, err := ls.Acquire(ctx, "f", &lock.Options{Owner: "late", TTL: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		next := wait(t, ls, "f", "next", 1)
		e.Clock.Advance(4 * time.Second)
		if err := e.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		if err := write(ctx, sp, late); err != nil {
			t.Errorf("the holder writes: %v", err)
		}
		if err := late.Renew(ctx); err != nil {
			t.Fatal(err)
		}
		e.Clock.Advance(5 * time.Second)
		if err := e.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		got := <-next
		if got.err != nil {
			t.Fatalf("next: %v", got.err)
		}
		if err := write(ctx, sp, late); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("the late holder writes: got %v, want ErrFenced", err)
		}
		if err := late.Renew(ctx); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("the late holder renews: got %v, want ErrFenced", err)
		}
		if err := late.Release(ctx); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("the late holder releases: got %v, want ErrFenced", err)
		}
		if err := write(ctx, sp, got.l); err != nil {
			t.Errorf("the new holder writes: %v", err)
		}
		var types []string
		var last thole.Event
		for ev, err := range sp.Events(ctx, thole.ReadQuery{Stream: "lock/f"}) {
			if err != nil {
				t.Fatal(err)
			}
			types, last = append(types, ev.Type), ev
		}
		if got, want := fmt.Sprint(types), "[lock.acquired lock.expired lock.acquired]"; got != want {
			t.Errorf("events: got %s, want %s", got, want)
		}
		if last.Position != got.l.Fence.Token {
			t.Errorf("the token is %s, the event is at %s", got.l.Fence.Token, last.Position)
		}
	})
}

func TestADeadHolderIsReplacedWithoutASweep(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		ls := lock.In(sp)
		dead := acquire(t, ls, "f", "dead")
		e.Clock.Advance(lock.DefaultTTL)
		if err := write(ctx, sp, dead); err != nil {
			t.Errorf("late but not replaced: %v", err)
		}
		next := acquire(t, ls, "f", "next")
		if err := e.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		if err := write(ctx, sp, next); err != nil {
			t.Errorf("the new holder writes: %v", err)
		}
		if err := write(ctx, sp, dead); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("the dead holder writes: got %v, want ErrFenced", err)
		}
	})
}

func TestADeadWaiterIsSkipped(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		ls := lock.In(sp)
		l := acquire(t, ls, "f", "a")
		// The records of a waiter whose process died are left.
		_, err := sp.Update(ctx, func(tx *thole.Tx) error {
			tx.Put("lock/f/queue", []map[string]string{{"ticket": "wait_1", "owner": "dead"}}, nil)
			tx.Put("lock/f/wait/wait_1", map[string]string{"lock": "lock/f", "owner": "dead"}, &thole.WriteOptions{Expires: tx.Now().Add(time.Second)})
			tx.Put("lockwaits/dead", []map[string]string{{"lock": "lock/f", "name": "f", "ticket": "wait_1"}}, nil)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		next := wait(t, ls, "f", "b", 2)
		if err := l.Release(ctx); err != nil {
			t.Fatal(err)
		}
		e.Clock.Advance(time.Second)
		if got := <-next; got.err != nil {
			t.Fatal(got.err)
		} else if err := got.l.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if err := e.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		for _, prefix := range []string{"lock/", "lockwaits/"} {
			if recs, err := sp.List(ctx, thole.ListQuery{Prefix: prefix}); err != nil || len(recs) != 0 {
				t.Errorf("left over: %v, %v", recs, err)
			}
		}
	})
}

func TestACancelledWaitLeavesNothing(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		ls := lock.In(sp)
		l := acquire(t, ls, "f", "a")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- errOf(ls.Acquire(ctx, "f", &lock.Options{Owner: "b", Wait: -1})) }()
		waiters(t, ls, "f", 1)
		cause := errors.New("had enough")
		cancel(cause)
		if err := <-done; !errors.Is(err, cause) {
			t.Errorf("got %v, want %v", err, cause)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, prefix := range []string{"lock/", "lockwaits/"} {
			if recs, err := sp.List(t.Context(), thole.ListQuery{Prefix: prefix}); err != nil || len(recs) != 0 {
				t.Errorf("left over: %v, %v", recs, err)
			}
		}
	})
}

func TestTheLastWaiterOfACycleGetsErrDeadlock(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			statetest.Each(t, func(t *testing.T, e *statetest.Env) {
				ls, ctx := lock.In(e.Space("project:shop")), t.Context()
				owner := func(i int) string { return fmt.Sprintf("o%d", i%n) }
				file := func(i int) string { return fmt.Sprintf("f%d", i%n) }
				var held []*lock.Lock
				for i := range n {
					held = append(held, acquire(t, ls, file(i), owner(i)))
				}
				var waiting []<-chan outcome
				for i := range n - 1 {
					waiting = append(waiting, wait(t, ls, file(i+1), owner(i), 1))
				}
				err := errOf(ls.Acquire(ctx, file(n), &lock.Options{Owner: owner(n - 1), Wait: -1}))
				var dead *lock.DeadlockError
				if !errors.As(err, &dead) || !errors.Is(err, thole.ErrDeadlock) || len(dead.Cycle) != n || dead.Cycle[0].Owner != owner(n-1) {
					t.Errorf("got %v, want a cycle of %d from %s", err, n, owner(n-1))
				}
				// It gives up, and all the others get what they wait for.
				for i := n - 1; i > 0; i-- {
					if err := held[i].Release(ctx); err != nil {
						t.Fatal(err)
					}
					got := <-waiting[i-1]
					if got.err != nil {
						t.Fatal(got.err)
					}
					if err := got.l.Release(ctx); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

func TestOneOfTwoThatCloseACycleGetsErrDeadlock(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ls := lock.In(e.Space("project:shop"))
		for range 20 {
			a, b := acquire(t, ls, "x", "a"), acquire(t, ls, "y", "b")
			done := make(chan error, 2)
			want := func(mine *lock.Lock, other string) {
				l, err := ls.Acquire(t.Context(), other, &lock.Options{Owner: mine.Owner, Wait: -1})
				err = errors.Join(mine.Release(t.Context()), err)
				if l != nil {
					err = errors.Join(err, l.Release(t.Context()))
				}
				done <- err
			}
			go want(a, "y")
			go want(b, "x")
			dead := 0
			for range 2 {
				if err := <-done; errors.Is(err, thole.ErrDeadlock) {
					dead++
				} else if err != nil {
					t.Error(err)
				}
			}
			if dead != 1 {
				t.Fatalf("%d callers got ErrDeadlock, want 1", dead)
			}
		}
	})
}

func TestIntentsAreSeenAndInNoOnesWay(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		ls := lock.In(sp)
		for _, owner := range []string{"a", "b/c"} {
			l, err := ls.Acquire(ctx, "f", &lock.Options{Owner: owner, Mode: lock.Intent})
			if err != nil {
				t.Fatal(err)
			}
			if err := write(ctx, sp, l); err != nil {
				t.Errorf("write under an intent: %v", err)
			}
		}
		acquire(t, ls, "f", "x")
		info, err := ls.Get(ctx, "f")
		if err != nil || len(info.Intents) != 2 || info.Intents[1].Owner != "b/c" || info.Holder.Owner != "x" {
			t.Errorf("got %+v, %v; want two intents and a holder", info, err)
		}
		e.Clock.Advance(lock.DefaultTTL)
		if err := e.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		if page, err := ls.List(ctx, nil); err != nil || len(page.Items) != 0 {
			t.Errorf("after their time: %+v, %v", page, err)
		}
	})
}

func TestWorkUnderALockExcludesAndIsAlwaysReleased(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ls := lock.In(e.Space("project:shop"))
		var inside, ran atomic.Int32
		done := make(chan error)
		const n = 12
		boom := errors.New("boom")
		for range n {
			go func() {
				done <- ls.Do(t.Context(), "f", &lock.Options{Wait: -1}, func(ctx context.Context, sp *thole.Space) error {
					if inside.Add(1) != 1 {
						t.Error("two are inside")
					}
					defer inside.Add(-1)
					ran.Add(1)
					return boom
				})
			}()
		}
		for range n {
			if err := <-done; !errors.Is(err, boom) {
				t.Errorf("got %v, want fn's error", err)
			}
		}
		if ran.Load() != n {
			t.Errorf("%d ran, want %d", ran.Load(), n)
		}
		if page, err := ls.List(t.Context(), nil); err != nil || len(page.Items) != 0 {
			t.Errorf("left over: %+v, %v", page, err)
		}
	})
}

func TestKeepReturnsWhenTheLockIsLost(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ls, ctx := lock.In(e.Space("project:shop")), t.Context()
		l, err := ls.Acquire(ctx, "f", &lock.Options{Owner: "a", TTL: 30 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		kept, stop := l.Keep(ctx)
		defer stop()
		again, err := ls.Acquire(ctx, "f", &lock.Options{Owner: "a", Again: true})
		if err != nil {
			t.Fatal(err)
		}
		<-kept.Done()
		if got := context.Cause(kept); !errors.Is(got, thole.ErrFenced) {
			t.Errorf("cause: got %v, want ErrFenced", got)
		}
		kept, stop = again.Keep(ctx)
		defer stop()
		if err := again.Release(ctx); err != nil {
			t.Fatal(err)
		}
		<-kept.Done()
	})
}

func TestRepeatUnderIdempotencyKeyGetsTheSameLock(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ls := lock.In(e.Space("project:shop"))
		var got [2]*lock.Lock
		for i := range got {
			var err error
			ctx := thole.WithIdempotencyKey(t.Context(), "once", "f")
			if got[i], err = ls.Acquire(ctx, "f", nil); err != nil {
				t.Fatal(err)
			}
		}
		if got[0].Owner != got[1].Owner || !got[0].Fence.Is(got[1].Fence) {
			t.Errorf("repeat: got %+v, want %+v", got[1], got[0])
		}
		if err := got[0].Renew(t.Context()); err != nil {
			t.Errorf("the first answer's fence: got %v", err)
		}
		if err := got[1].Release(t.Context()); err != nil {
			t.Errorf("the second answer's fence: got %v", err)
		}
		ctx := thole.WithIdempotencyKey(t.Context(), "once", "f")
		again, err := ls.Acquire(ctx, "f", nil)
		if err != nil || !again.Fence.Is(got[0].Fence) {
			t.Fatalf("repeat after the release: got %v, %v; want the first answer", again, err)
		}
		if err := again.Renew(t.Context()); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("its fence: got %v, want ErrFenced", err)
		}
	})
}

// One program with many waiters was killed; the last waiter of another one gives up.
func TestManyWaitersDeadOrAliveJamNoLock(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		ls := lock.In(sp)
		const many = 400
		queue := make([]map[string]string, many)
		for i := range queue {
			queue[i] = map[string]string{"ticket": fmt.Sprintf("wait_%03d", i), "owner": fmt.Sprint(i)}
		}
		for from := 0; from < many; from += 200 {
			_, err := sp.Update(ctx, func(tx *thole.Tx) error {
				tx.Put("lock/a/queue", queue, nil)
				for _, w := range queue[from : from+200] {
					tx.Put("lock/a/wait/"+w["ticket"], map[string]string{"lock": "lock/a", "owner": w["owner"]},
						&thole.WriteOptions{Expires: tx.Now().Add(10 * time.Second)})
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		var held *lock.HeldError
		if _, err := ls.Acquire(ctx, "a", &lock.Options{Owner: "late", Wait: time.Millisecond}); !errors.As(err, &held) || errors.Is(err, thole.ErrTooLarge) {
			t.Errorf("behind the living: got %v, want *HeldError", err)
		}
		e.Clock.Advance(time.Minute)
		if _, err := ls.Acquire(ctx, "a", nil); err != nil && !errors.As(err, &held) {
			t.Errorf("behind the dead: got %v, want the lock or *HeldError", err)
		}
		if err := e.Sweep(ctx); err != nil {
			t.Error(err)
		}
		if _, err := ls.Acquire(ctx, "a", nil); err != nil {
			t.Errorf("after a sweep: %v", err)
		}
	})
}

package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/state/lock"
)

// An owner that is known to be dead delays nobody, whether it holds the lock or waits
// before the caller.
func TestOwnersKnownToBeDeadAreNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := lock.In(inMemory(t))
		old, err := locks.Acquire(t.Context(), "f", &lock.Options{Owner: "dead/1", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		waiting, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := locks.Acquire(waiting, "f", &lock.Options{Owner: "dead/2", Wait: -1})
			ended <- err
		}()
		synctest.Wait() // it is in the queue
		if _, err := locks.Acquire(t.Context(), "f", &lock.Options{Owner: "b"}); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("for a caller that does not know that the owner is dead: %v, want ErrConflict", err)
		}
		begin := time.Now()
		l, err := locks.Acquire(t.Context(), "f", &lock.Options{Owner: "c", Wait: time.Minute,
			Dead: func(_ context.Context, owner string) bool { return owner == "dead/1" || owner == "dead/2" }})
		if err != nil || time.Since(begin) != 0 {
			t.Errorf("Acquire = %v after %v; want the lock at once", err, time.Since(begin))
		}
		if err := old.Renew(t.Context()); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("the dead holder renews: %v, want ErrFenced", err)
		}
		stop()
		<-ended
		if _, err := locks.Acquire(t.Context(), "f", &lock.Options{Owner: "d", Dead: func(context.Context, string) bool { return false }}); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("a living holder: %v, want ErrConflict", err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// inMemory returns a space of a store in memory that does not sweep.
func inMemory(t *testing.T) *thole.Space {
	t.Helper()
	s, err := thole.Open(t.Context(), memstore.New(), &thole.Options{Concepts: []*thole.Concept{lock.Concept}, Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.Space("project:shop")
}

package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/state/lock"
)

// hesitant calls before, once, before it commits.
type hesitant struct {
	*memstore.Store
	before atomic.Pointer[func()]
}

func (h *hesitant) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	if f := h.before.Swap(nil); f != nil {
		(*f)()
	}
	return h.Store.Commit(ctx, batch)
}

func TestALockThatIsAcquiredAsItsCallerLeavesIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hesitant{Store: memstore.New()}
		s, err := thole.Open(t.Context(), h, &thole.Options{Concepts: []*thole.Concept{lock.Concept}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ls := lock.In(s.Space("project:shop"))
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan struct{})
		leave := func() {
			cancel()
			synctest.Wait() // until the caller has noticed
			close(left)
		}
		h.before.Store(&leave)
		err = ls.Do(ctx, "a", &lock.Options{TTL: time.Hour}, func(ctx context.Context, _ *thole.Space) error { return ctx.Err() })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
		<-left
		synctest.Wait() // for a commit that nobody waits for
		if info, err := ls.Get(t.Context(), "a"); err != nil || info.Holder != nil {
			t.Errorf("the lock is held by %+v, %v", info.Holder, err)
		}
	})
}

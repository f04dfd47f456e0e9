package thole_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

func TestALeaseIsKeptUntilItIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		sp := s.Space("user:1")
		acquire := func(holder string) (thole.Fence, error) {
			var f thole.Fence
			res, err := sp.Update(t.Context(), func(tx *thole.Tx) (err error) { f, err = tx.Acquire("job", holder, time.Minute); return err })
			return f.At(res), err
		}
		lease := func() (l thole.Lease) {
			t.Helper()
			_, err := sp.Update(t.Context(), func(tx *thole.Tx) (err error) { l, err = tx.Lease("job"); return err })
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		if l := lease(); l.Holder != "" || l.Alive {
			t.Errorf("nobody's: got %+v", l)
		}
		fence, err := acquire("a")
		if err != nil {
			t.Fatal(err)
		}
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		kept := make(chan error)
		go func() { kept <- sp.KeepLease(ctx, fence, time.Minute) }()
		time.Sleep(time.Hour)
		if l := lease(); l.Holder != "a" || !l.Fence.Is(fence) || !l.Alive {
			t.Errorf("kept for an hour: got %+v", l)
		}
		if _, err := acquire("b"); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("taking it: got %v, want ErrConflict", err)
		}
		cancel(stop)
		if err := <-kept; !errors.Is(err, stop) {
			t.Errorf("KeepLease: got %v, want the context's cause", err)
		}
		time.Sleep(time.Hour)
		if l := lease(); l.Holder != "a" || !l.Fence.Is(fence) || l.Alive {
			t.Errorf("not kept: got %+v", l)
		}
		// A late holder has not lost the lease until another acquires it.
		if err := sp.Renew(t.Context(), fence, time.Minute); err != nil {
			t.Errorf("late renewal: got %v", err)
		}
		time.Sleep(time.Hour)
		other, err := acquire("b")
		if err != nil {
			t.Fatal(err)
		}
		if err := sp.KeepLease(t.Context(), fence, time.Minute); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("replaced: got %v, want ErrFenced", err)
		}
		for _, f := range []thole.Fence{fence, {Key: "job/owner", Token: thole.Position{Epoch: journal.NewEpoch(1), Seq: 1}}} {
			if _, err := sp.Under(other).Under(f).Commit(t.Context(), event(1)); !errors.Is(err, thole.ErrFenced) {
				t.Errorf("under %v: got %v, want ErrFenced", f, err)
			}
		}
		_, err = sp.Under(other).Update(t.Context(), func(tx *thole.Tx) error { tx.Release("job"); return nil })
		if err != nil {
			t.Errorf("release: got %v", err)
		}
		if err := sp.Renew(t.Context(), other, time.Minute); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("released: got %v, want ErrFenced", err)
		}
		for _, err := range []error{
			sp.Renew(t.Context(), thole.Fence{Key: "job"}, time.Minute),
			sp.Renew(t.Context(), other, 0),
			sp.KeepLease(t.Context(), other, -1),
			func() error {
				_, err := sp.Update(t.Context(), func(tx *thole.Tx) error { _, err := tx.Acquire("x", "a", 0); return err })
				return err
			}(),
		} {
			if !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("got %v, want ErrInvalid", err)
			}
		}
	})
}

func TestOneOfManyGetsALease(t *testing.T) {
	a, b := pair(t, nil, false)
	var got atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			sp := []*thole.Space{a, b}[i%2]
			_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
				_, err := tx.Acquire("job", string(rune('a'+i)), time.Hour)
				return err
			})
			switch {
			case err == nil:
				got.Add(1)
			case !errors.Is(err, thole.ErrConflict):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := got.Load(); n != 1 {
		t.Errorf("%d hold the lease", n)
	}
}

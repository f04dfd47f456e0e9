package thole_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

func TestConcurrentRepeatsCommitOnce(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	var first atomic.Int32
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			ctx := thole.WithIdempotencyKey(t.Context(), "k", "f")
			var res thole.Result
			var err error
			if i%2 == 0 {
				res, err = sp.Commit(ctx, event(7))
			} else {
				res, err = sp.Update(ctx, func(tx *thole.Tx) error { tx.Emit("app/x", "x.y", 7); return nil })
			}
			if err != nil {
				t.Errorf("got %v", err)
				return
			}
			if !res.Repeated {
				first.Add(1)
			} else if es, err := sp.Repeat(t.Context(), res); err != nil || len(es) != 1 || string(es[0].Data) != "7" {
				t.Errorf("Repeat: got %v, %v; want the first call's event", es, err)
			}
			if res.First.Seq != 1 || res.Last.Seq != 1 {
				t.Errorf("got %v…%v, want the first call's positions", res.First, res.Last)
			}
		})
	}
	wg.Wait()
	if got := first.Load(); got != 1 {
		t.Errorf("%d calls committed, want 1", got)
	}
}

// twoSteps is an operation of two commits.
func twoSteps(ctx context.Context, sp *thole.Space) error {
	for _, step := range []string{"one", "two"} {
		_, err := sp.Update(ctx, func(tx *thole.Tx) error {
			tx.Emit("app/steps", "step."+step, nil)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func TestAnOperationOfSeveralCommitsResumesWhereItDied(t *testing.T) {
	for cut := 1; cut <= 2; cut++ {
		for _, w := range []when{before, after} {
			backend := memstore.New()
			dying := &faults{Backend: backend, shared: true}
			s := openOn(t, dying, nil)
			dying.breakFrom(cut, w)
			ctx := func() context.Context { return thole.WithIdempotencyKey(t.Context(), "k", "f") }
			if err := twoSteps(ctx(), s.Space("user:1")); !errors.Is(err, errFault) {
				t.Fatalf("got %v, want the fault", err)
			}
			s = openOn(t, backend, nil)
			for range 2 {
				if err := twoSteps(ctx(), s.Space("user:1")); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := types(t, s.Space("user:1"), "app/steps"), "step.one step.two"; got != want {
				t.Errorf("cut %d %v: got %q, want %q", cut, w, got, want)
			}
		}
	}
}

func TestRepeatGivesExactlyTheFirstCallsEvents(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	three := func(ctx context.Context, n int) thole.Result {
		t.Helper()
		res, err := sp.Update(ctx, func(tx *thole.Tx) error {
			for i := range n {
				tx.Emit("app/x", "x.y", i)
			}
			tx.Put("app/k", n, nil)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for _, n := range []int{3, 1, 0} {
		key := fmt.Sprint(n)
		first := three(thole.WithIdempotencyKey(t.Context(), key, "f"), n)
		three(t.Context(), 5)
		again := three(thole.WithIdempotencyKey(t.Context(), key, "f"), n)
		if !again.Repeated || again.First != first.First || again.Last != first.Last {
			t.Errorf("%d events: got %+v, want %+v repeated", n, again, first)
		}
		es, err := sp.Repeat(t.Context(), again)
		if err != nil || len(es) != n || n > 0 && es[0].Position != first.First {
			t.Errorf("%d events: got %v, %v", n, es, err)
		}
		if _, err := sp.Repeat(t.Context(), first); err == nil {
			t.Error("Repeat of a first result: got no error")
		}
	}
	// Without the key, and as somebody else, it is another operation.
	ctx := thole.WithIdempotencyKey(t.Context(), "3", "f")
	if res := three(thole.WithoutIdempotencyKey(ctx), 3); res.Repeated {
		t.Error("repeated without a key")
	}
	if res, err := sp.As("user:2").Commit(ctx, event(1)); err != nil || res.Repeated {
		t.Errorf("another actor: got %+v, %v; want a commit", res, err)
	}
	var reused *thole.ReusedKeyError
	_, err := sp.Commit(thole.WithIdempotencyKey(t.Context(), "3", "g"), event(1))
	if !errors.As(err, &reused) || reused.Key != "3" || !errors.Is(err, thole.ErrInvalid) {
		t.Errorf("another fingerprint: got %v, want ReusedKeyError", err)
	}
}

package thole_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
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
	ctx = thole.Operation(ctx)
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

func TestAContextThatIsUsedAgainMakesNoNewWork(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	for name, op := range map[string]func(context.Context) error{
		"app/commit": func(ctx context.Context) error {
			_, err := sp.Commit(ctx, thole.Commit{Events: []thole.Event{{Stream: "app/commit", Type: "step.one"}}})
			return err
		},
		"app/update": func(ctx context.Context) error {
			_, err := sp.Update(ctx, func(tx *thole.Tx) error { tx.Emit("app/update", "step.one", nil); return nil })
			return err
		},
		"app/steps": func(ctx context.Context) error { return twoSteps(ctx, sp) },
	} {
		ctx := thole.WithIdempotencyKey(t.Context(), name, "f")
		for range 3 {
			if err := op(ctx); err != nil {
				t.Fatal(err)
			}
		}
		want := "step.one"
		if name == "app/steps" {
			want += " step.two"
		}
		if got := types(t, sp, name); got != want {
			t.Errorf("%s three times with one context: got %q, want %q", name, got, want)
		}
	}
}

func TestWhatIsBelowIsDeletedUnderAKeyToo(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	for range 3 {
		_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
			for range 100 {
				tx.Put("app/x/"+thole.NewID("rec"), 1, nil)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := sp.DeleteBelow(thole.WithIdempotencyKey(t.Context(), "k", "f"), "app/x"); err != nil {
		t.Fatal(err)
	}
	if recs, err := sp.List(t.Context(), thole.ListQuery{Prefix: "app/x/"}); err != nil || len(recs) > 0 {
		t.Errorf("got %d records, %v; want none", len(recs), err)
	}
}

func TestARepeatGivesTheFirstCallsPositions(t *testing.T) {
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
	}
	// Without the key, and by another actor, it is another operation.
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

func TestAReceiptOfAnEarlierVersionIsForWhateverCallRepeats(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	ctx := func() context.Context { return thole.WithIdempotencyKey(t.Context(), "k", "f") }
	if _, err := sp.Commit(ctx(), event(7)); err != nil {
		t.Fatal(err)
	}
	recs, err := sp.List(t.Context(), thole.ListQuery{Prefix: "idem/"})
	if err != nil || len(recs) != 1 {
		t.Fatalf("got %v, %v; want one receipt", recs, err)
	}
	call := func() (thole.Result, error) { return sp.Commit(thole.Call(ctx(), "app.call", "x"), event(7)) }
	var reused *thole.ReusedKeyError
	if _, err := call(); !errors.As(err, &reused) {
		t.Errorf("a call with a name: got %v, want *ReusedKeyError", err)
	}
	var was map[string]json.RawMessage
	if err := recs[0].As(&was); err != nil {
		t.Fatal(err)
	}
	delete(was, "operation")
	if _, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
		tx.Put(recs[0].Key, was, &thole.WriteOptions{Expires: recs[0].Expires})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if res, err := call(); err != nil || !res.Repeated {
		t.Errorf("got %+v, %v; want a repeat", res, err)
	}
}

// Calls within an operation are counted within it: none gets another's receipt.
func TestOperationsWithinOneShareNoReceipts(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	for try := range 2 {
		ctx := thole.Operation(thole.WithIdempotencyKey(t.Context(), "k", "f"))
		for range 3 {
			if err := twoSteps(ctx, sp); err != nil {
				t.Fatal(err)
			}
		}
		want := strings.TrimSpace(strings.Repeat("step.one step.two ", 3))
		if got := types(t, sp, "app/steps"); got != want {
			t.Errorf("call %d: got %q, want %q", try+1, got, want)
		}
	}
}

func TestAnOperationWithinACallHasReceiptsOfItsOwn(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	for try := range 2 {
		ctx := thole.Call(thole.WithIdempotencyKey(t.Context(), "k", "f"), "outer")
		if _, err := sp.Commit(ctx, thole.Commit{Events: []thole.Event{{Stream: "app/steps", Type: "step.first"}}}); err != nil {
			t.Fatal(err)
		}
		if err := twoSteps(ctx, sp); err != nil {
			t.Errorf("call %d: %v", try+1, err)
		}
		if got, want := types(t, sp, "app/steps"), "step.first step.one step.two"; got != want {
			t.Errorf("call %d: got %q, want %q", try+1, got, want)
		}
	}
}

// The first operation's receipts keep the keys that earlier versions gave them.
func TestOperationsWithinACallShareNoReceipts(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	commit := func(ctx context.Context) {
		t.Helper()
		if res, err := sp.Commit(ctx, event(7)); err != nil || res.Repeated {
			t.Errorf("got %+v, %v; want a commit", res, err)
		}
	}
	ctx := thole.Call(thole.WithIdempotencyKey(t.Context(), "k", "f"), "outer")
	commit(ctx)
	for range 2 {
		op := thole.Operation(ctx)
		commit(op)
		call := thole.Call(op, "inner")
		commit(call)
		commit(call)
		commit(thole.Operation(call))
	}
	commit(ctx)
	recs, err := sp.List(t.Context(), thole.ListQuery{Prefix: "idem/"})
	if err != nil {
		t.Fatal(err)
	}
	var numbers []string
	for _, rec := range recs {
		numbers = append(numbers, path.Base(rec.Key))
	}
	want := "0 0-0 0-1 0-1.1 0-2.0 0.1 0.1-0 0.1-1 0.1-1.1 0.1-2.0"
	if got := strings.Join(numbers, " "); got != want {
		t.Errorf("got the receipts %s, want %s", got, want)
	}
}

func TestConcurrentOperationsWithinACallShareNoReceipts(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	ctx := thole.Call(thole.WithIdempotencyKey(t.Context(), "k", "f"), "outer")
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if res, err := sp.Commit(thole.Operation(ctx), event(7)); err != nil || res.Repeated {
				t.Errorf("got %+v, %v; want a commit", res, err)
			}
		})
	}
	wg.Wait()
}

// Without a name, the second of two operations would return without having done
// anything.
func TestAConceptMustNameWhatItDoesUnderAKey(t *testing.T) {
	s := openOn(t, memstore.New(), with(nil))
	sp := s.Space("project:shop").For("thing")
	put := func(tx *thole.Tx) (int, error) {
		tx.Put("thing/1", 1, nil)
		return 1, nil
	}
	for name, commit := range map[string]func(ctx context.Context) error{
		"Commit": func(ctx context.Context) error {
			_, err := sp.Commit(ctx, below("thing/1"))
			return err
		},
		"Space.Update": func(ctx context.Context) error {
			_, err := sp.Update(ctx, func(tx *thole.Tx) error {
				tx.Put("thing/1", 1, nil)
				return nil
			})
			return err
		},
		"Update": func(ctx context.Context) error {
			_, _, err := thole.Update(ctx, sp, put)
			return err
		},
		"Do": func(ctx context.Context) error {
			_, _, err := thole.Do(ctx, sp, func(ctx context.Context) (int, thole.Receipt, error) { return thole.Update(ctx, sp, put) })
			return err
		},
	} {
		key := thole.WithIdempotencyKey(t.Context(), name, "f")
		for _, ctx := range []context.Context{key, thole.Operation(key)} {
			if err := commit(ctx); !errors.Is(err, thole.ErrInvalid) || !strings.Contains(err.Error(), "concept thing") {
				t.Errorf("%s without a name: %v, want ErrInvalid and the concept", name, err)
			}
		}
		if err := errors.Join(commit(t.Context()), commit(thole.Call(key, "thing.put", "1"))); err != nil {
			t.Errorf("%s without a key, and with a name: %v", name, err)
		}
	}
}

package decision_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/statetest"
)

type answer struct {
	decision.Decision
	err error
}

// deadLease is longer than a dead actor counts as acting.
const deadLease = 31 * time.Second

func TestNobodyVerifiesWhatIsOnItsWay(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, p := t.Context(), decision.Plan{Action: "pay"}
		verify := func(context.Context, decision.Decision) (decision.Status, any, error) {
			t.Error("verified while the act was on its way")
			return decision.Failed, "the bank knows nothing of it", nil
		}
		begun, pay, first, second := make(chan struct{}), make(chan struct{}), make(chan answer), make(chan answer)
		here, there := decision.In(e.Space("project:shop")), decision.In(e.Beside().Space("project:shop"))
		go func() {
			dec, err := here.Once(ctx, "order-1", p, func(context.Context) (any, error) {
				close(begun)
				<-pay
				return "receipt", nil
			}, verify)
			first <- answer{dec, err}
		}()
		<-begun
		hurried, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		if dec, err := there.Once(hurried, "order-1", p, nil, verify); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that cannot wait: got %+v, %v; want its deadline", dec, err)
		}
		r, err := there.Reconcile(ctx, verify, nil)
		if err != nil || actions(r.Acting) != "[pay]" || len(r.Resolved)+len(r.Unknown)+len(r.Replay) != 0 {
			t.Errorf("reconciled meanwhile: got %+v, %v", r, err)
		}
		go func() {
			dec, err := there.Once(ctx, "order-1", p, nil, verify)
			second <- answer{dec, err}
		}()
		close(pay)
		for who, got := range map[string]answer{"who pays": <-first, "who asks meanwhile": <-second} {
			if got.err != nil || got.Status != decision.Done || string(got.Result) != `"receipt"` {
				t.Errorf("%s: got %+v, %v; want it done", who, got.Decision, got.err)
			}
		}
	})
}

func TestWhatIsIdempotentIsDoneByOneAtATime(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		p := decision.Plan{Action: "put", Idempotent: true}
		at := make(chan struct{}, 1) // holds a token while somebody acts
		act := func(context.Context) (any, error) {
			select {
			case at <- struct{}{}:
				defer func() { <-at }()
			default:
				t.Error("two act at once")
			}
			return "same", nil
		}
		e.DieAt(statetest.Cut{Commit: 2})
		if _, err := decision.In(e.Space("project:shop")).Once(t.Context(), "k", p, act, nil); !errors.Is(err, statetest.ErrDead) {
			t.Fatalf("got %v, want ErrDead", err)
		}
		e.Reopen()
		e.Clock.Advance(deadLease)
		got := make(chan answer)
		for _, s := range []*thole.Store{e.Store, e.Store, e.Beside()} {
			go func() {
				dec, err := decision.In(s.Space("project:shop")).Once(t.Context(), "k", p, act, nil)
				got <- answer{dec, err}
			}()
		}
		for range 3 {
			if got := <-got; got.err != nil || got.Status != decision.Done {
				t.Errorf("got %+v, %v; want it done", got.Decision, got.err)
			}
		}
	})
}

func TestASuccessIsReturnedWhoeverRecordedIt(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, d := t.Context(), decision.In(e.Space("project:shop"))
		resolve := func(outcome decision.Status, result any) decision.Act {
			return func(context.Context) (any, error) {
				page, err := d.List(ctx, &decision.ListOptions{Incomplete: true})
				if err == nil {
					_, err = d.Resolve(ctx, page.Items[0].ID, outcome, result)
				}
				return "receipt", err
			}
		}
		dec, err := d.Do(ctx, decision.Plan{Action: "pay"}, resolve(decision.Done, "seen in the books"))
		if err != nil || dec.Status != decision.Done || string(dec.Result) != `"seen in the books"` {
			t.Errorf("recorded as done: got %+v, %v", dec, err)
		}
		if dec, err = d.Do(ctx, decision.Plan{Action: "pay"}, resolve(decision.Failed, nil)); !errors.Is(err, thole.ErrConflict) || dec.Status != decision.Failed {
			t.Errorf("recorded as failed: got %+v, %v; want ErrConflict and what is recorded", dec, err)
		}
	})
}

func TestTheSameOutcomeMayBeGivenAgain(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, d := t.Context(), decision.In(e.Space("project:shop"))
		dec := plan(t, d, decision.Plan{Action: "pay"})
		first, err := d.Resolve(ctx, dec.ID, decision.Done, map[string]int{"n": 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range []any{map[string]int{"n": 1}, nil} {
			if again, err := d.Resolve(ctx, dec.ID, decision.Done, result); err != nil || again.Version != first.Version || string(again.Result) != string(first.Result) {
				t.Errorf("again with %v: got %+v, %v; want %+v", result, again, err, first)
			}
		}
		if _, err := d.Resolve(ctx, dec.ID, decision.Done, map[string]int{"n": 2}); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("with another result: got %v, want ErrConflict", err)
		}
	})
}

func TestAnOutcomeIsRecordedAlthoughTheLeaseWasLost(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, sp := t.Context(), e.Space("project:shop")
		var f thole.Fence
		take := func(holder string) {
			res, err := sp.Update(ctx, func(tx *thole.Tx) (err error) {
				f, err = tx.Acquire("app/job", holder, time.Second)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			f = f.At(res)
		}
		take("one")
		acted := 0
		d := decision.In(sp.Under(f))
		dec, err := d.Do(ctx, decision.Plan{Action: "pay"}, func(context.Context) (any, error) {
			acted++
			e.Clock.Advance(2 * time.Second)
			take("another")
			return "receipt", nil
		})
		if err != nil || dec.Status != decision.Done {
			t.Errorf("got %+v, %v; want it done", dec, err)
		}
		if _, err := d.Do(ctx, decision.Plan{Action: "pay"}, func(context.Context) (any, error) { acted++; return nil, nil }); !errors.Is(err, thole.ErrFenced) || acted != 1 {
			t.Errorf("a plan without the lease: got %v after %d acts, want ErrFenced and no act", err, acted)
		}
	})
}

func TestWhatFailedSaysWhy(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx := t.Context()
		for result, want := range map[any]string{"the bank knows nothing of it": "the bank knows nothing of it", 7: "7", nil: "no reason was recorded"} {
			verify := func(context.Context, decision.Decision) (decision.Status, any, error) {
				return decision.Failed, result, nil
			}
			e.DieAt(statetest.Cut{Commit: 2})
			_, _ = decision.In(e.Space("project:shop")).Once(ctx, want, decision.Plan{Action: "pay"}, func(context.Context) (any, error) { return nil, nil }, verify)
			e.Reopen()
			e.Clock.Advance(deadLease)
			dec, err := decision.In(e.Space("project:shop")).Once(ctx, want, decision.Plan{Action: "pay"}, nil, verify)
			if text := "decision " + dec.ID + " failed: " + want; err == nil || err.Error() != text {
				t.Errorf("got %v, want %s", err, text)
			}
		}
	})
}

package decision_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/statetest"
)

// ways are the ways to decide and act under a key.
var ways = map[string]func(ctx context.Context, d *decision.Decisions, p decision.Plan, act decision.Act) (decision.Decision, error){
	"Do": func(ctx context.Context, d *decision.Decisions, p decision.Plan, act decision.Act) (decision.Decision, error) {
		return d.Do(ctx, p, act)
	},
	"Once": func(ctx context.Context, d *decision.Decisions, p decision.Plan, act decision.Act) (decision.Decision, error) {
		return d.Once(ctx, "pay the bill", p, act, nil)
	},
}

func TestNothingIsDoneTwiceUnderOneKeyWhereverTheProcessDies(t *testing.T) {
	effort.SlowUnderRace(t)
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		n := 0
		for name, do := range ways {
			for _, same := range []bool{true, false} {
				statetest.AtEachCut(func(cut statetest.Cut) bool {
					n++
					space := fmt.Sprintf("project:shop%d", n)
					acts := 0
					act := func(context.Context) (any, error) { acts++; return "paid", nil }
					ctx := thole.WithIdempotencyKey(t.Context(), "k", "f")
					call := func() (decision.Decision, error) {
						if !same {
							ctx = thole.WithIdempotencyKey(t.Context(), "k", "f")
						}
						return do(ctx, decision.In(e.Space(space)), decision.Plan{Action: "pay"}, act)
					}
					died := e.DieAt(cut)
					_, err := call()
					dead := died()
					if dead != (err != nil) {
						t.Errorf("%s %+v: dead %v, got %v", name, cut, dead, err)
					}
					first := acts
					e.Reopen()
					e.Clock.Advance(deadLease)
					for range 3 {
						dec, err := call()
						switch {
						case acts > 1:
							t.Fatalf("%s, same context %v, died at %+v: acted %d times", name, same, cut, acts)
						case dec.Status == decision.Done && err == nil && acts == 1 && string(dec.Result) == `"paid"`:
						case dec.Status == decision.Unknown && errors.Is(err, thole.ErrConflict) && dead:
						default:
							t.Errorf("%s died at %+v: got %+v, %v after %d acts", name, cut, dec, err, acts)
						}
					}
					if dead && cut.Commit == 2 && cut.Applied && first == 1 {
						dec, err := call()
						if err != nil || dec.Status != decision.Done {
							t.Errorf("%s whose outcome was recorded: got %+v, %v; want it", name, dec, err)
						}
					}
					return dead
				})
			}
		}
	})
}

func TestAKeyOfADecisionDoesNotExpire(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, acts := t.Context(), 0
		once := func(p decision.Plan) (decision.Decision, error) {
			act := func(context.Context) (any, error) { acts++; return nil, errors.New("boom") }
			return decision.In(e.Space("project:shop").As(thole.NewID("agent:x"))).Once(ctx, "k", p, act, nil)
		}
		var ids []string
		for range 3 {
			dec, err := once(decision.Plan{Action: "pay", Input: []byte(`{"to": 1}`)})
			if err == nil || dec.Status != decision.Failed {
				t.Errorf("got %+v, %v; want the failed call and its error", dec, err)
			}
			ids = append(ids, dec.ID)
			e.Clock.Advance(100 * 24 * time.Hour)
			if err := e.Sweep(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if acts != 1 || ids[0] != ids[2] {
			t.Errorf("acted %d times as %v, want once", acts, ids)
		}
		var reused *thole.ReusedKeyError
		if _, err := once(decision.Plan{Action: "pay", Input: []byte(`{"to": 2}`)}); !errors.As(err, &reused) || acts != 1 {
			t.Errorf("with another input: got %v, want ReusedKeyError", err)
		}
	})
}

func TestWhatCameOfAnActIsVerifiedOnce(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, acts, looks := t.Context(), 0, 0
		p := decision.Plan{Action: "pay"}
		act := func(context.Context) (any, error) { acts++; return nil, nil }
		verify := func(context.Context, decision.Decision) (decision.Status, any, error) {
			looks++
			return decision.Done, "found in the books", nil
		}
		e.DieAt(statetest.Cut{Commit: 2})
		if _, err := decision.In(e.Space("project:shop")).Once(ctx, "k", p, act, verify); !errors.Is(err, statetest.ErrDead) {
			t.Fatalf("got %v, want ErrDead", err)
		}
		e.Reopen()
		e.Clock.Advance(deadLease)
		for range 2 {
			dec, err := decision.In(e.Space("project:shop")).Once(ctx, "k", p, act, verify)
			if err != nil || dec.Status != decision.Done || string(dec.Result) != `"found in the books"` {
				t.Errorf("got %+v, %v", dec, err)
			}
		}
		if acts != 1 || looks != 1 {
			t.Errorf("acted %d times, looked %d times; want once each", acts, looks)
		}
	})
}

func TestAnActWhoseResultCannotBeKeptIsDone(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		for name, result := range map[string]any{"too large": make([]byte, thole.MaxValueBytes), "no JSON": func() {}} {
			dec, err := decision.In(e.Space("project:shop")).Do(t.Context(), decision.Plan{Action: "pay"}, func(context.Context) (any, error) { return result, nil })
			if err == nil || dec.Status != decision.Done {
				t.Errorf("%s: got %+v, %v; want it done, with an error", name, dec.Status, err)
			}
		}
	})
}

// One request makes several decisions, and is repeated.
func TestEachDecisionOfARequestIsActedOnOnce(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		d := decision.In(e.Space("project:shop"))
		acts := 0
		for range 2 {
			ctx := thole.Operation(thole.WithIdempotencyKey(t.Context(), "k", "f"))
			for i := range 3 {
				dec, err := d.Do(ctx, decision.Plan{Action: "pay"}, func(context.Context) (any, error) { acts++; return acts, nil })
				if err != nil || string(dec.Result) != fmt.Sprint(i+1) {
					t.Errorf("decision %d: got %s, %v", i+1, dec.Result, err)
				}
			}
		}
		if acts != 3 {
			t.Errorf("acted %d times, want 3", acts)
		}
	})
}

// One call of a concept makes several decisions that differ only in their input.
func TestEachDecisionOfACallIsActedOnOnceWhereverTheProcessDies(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		n := 0
		statetest.AtEachCut(func(cut statetest.Cut) bool {
			n++
			space := fmt.Sprintf("project:shop%d", n)
			mails := map[string]int{}
			notify := func(again bool) error {
				ctx := thole.Call(thole.WithIdempotencyKey(t.Context(), "k", "f"), "order.notify", "42")
				for _, to := range []string{"bob", "alice"} {
					p := decision.Plan{Action: "mail", Input: fmt.Appendf(nil, "%q", to)}
					dec, err := decision.In(e.Space(space)).Do(ctx, p, func(context.Context) (any, error) { mails[to]++; return to, nil })
					switch {
					case err != nil && !again:
						return err
					case string(dec.Input) == string(p.Input) && dec.Status == decision.Done && string(dec.Result) == string(p.Input):
					case string(dec.Input) == string(p.Input) && dec.Status == decision.Unknown && errors.Is(err, thole.ErrConflict) && again:
					default:
						t.Errorf("%+v: the mail to %s: got %+v, %v", cut, to, dec, err)
					}
				}
				return nil
			}
			died := e.DieAt(cut)
			err := notify(false)
			dead := died()
			if dead != (err != nil) {
				t.Errorf("%+v: dead %v, got %v", cut, dead, err)
			}
			e.Reopen()
			e.Clock.Advance(deadLease)
			for range 2 {
				_ = notify(true)
			}
			if mails["bob"] > 1 || mails["alice"] > 1 || !dead && len(mails) != 2 {
				t.Errorf("%+v: the mails sent are %v, want one to each", cut, mails)
			}
			return dead
		})
	})
}

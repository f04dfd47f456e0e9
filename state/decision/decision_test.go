package decision_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/statetest"
)

func TestMain(m *testing.M) { statetest.Main(m) }

func plan(t *testing.T, d *decision.Decisions, p decision.Plan) decision.Decision {
	t.Helper()
	dec, err := d.Plan(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return dec
}

// actions returns the actions of decisions.
func actions(decisions []decision.Decision) string {
	names := []string{}
	for _, d := range decisions {
		names = append(names, d.Action)
	}
	return fmt.Sprint(names)
}

func incomplete(t *testing.T, d *decision.Decisions) string {
	t.Helper()
	page, err := d.List(t.Context(), &decision.ListOptions{Incomplete: true})
	if err != nil {
		t.Fatal(err)
	}
	return actions(page.Items)
}

func TestUnfinishedDecisionsAreFoundAndSettledAfterACrash(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx := t.Context()
		d := decision.In(e.Space("project:shop").As("agent:a"))
		for _, p := range []decision.Plan{
			{Action: "finished"}, {Action: "again", Idempotent: true}, {Action: "happened", Input: json.RawMessage(`{"path":"a"}`)},
			{Action: "did not"}, {Action: "who knows"}, {Action: "cannot look"}, {Action: "alive", Run: "run_2"},
		} {
			plan(t, d, p)
		}
		page, err := d.List(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Resolve(ctx, page.Items[0].ID, decision.Done, "ok"); err != nil {
			t.Fatal(err)
		}
		e.Reopen()
		d = decision.In(e.Space("project:shop"))
		if got, want := incomplete(t, d), "[again happened did not who knows cannot look alive]"; got != want {
			t.Fatalf("after the crash: got %s, want %s", got, want)
		}
		mine := &decision.ReconcileOptions{Select: func(dec decision.Decision) bool { return dec.Run != "run_2" }}
		verify := func(_ context.Context, dec decision.Decision) (decision.Status, any, error) {
			switch dec.Action {
			case "happened":
				return decision.Done, "seen " + string(dec.Input), nil
			case "did not":
				return decision.Failed, nil, nil
			case "cannot look":
				return "", nil, errors.New("no such machine")
			}
			return decision.Unknown, nil, nil
		}
		r, err := d.Reconcile(ctx, verify, mine)
		if err != nil {
			t.Fatal(err)
		}
		got := actions(r.Replay) + actions(r.Resolved) + actions(r.Unknown)
		if want := "[again][happened did not][who knows cannot look]"; got != want {
			t.Errorf("reconciled: got %s, want %s", got, want)
		}
		if got, want := incomplete(t, d), "[again who knows cannot look alive]"; got != want {
			t.Errorf("afterwards: got %s, want %s", got, want)
		}
		if got, want := string(r.Unknown[1].Result), `{"error":"no such machine"}`; got != want {
			t.Errorf("why it is unknown: got %s, want %s", got, want)
		}
		// Someone finds out the outcome, once.
		id := r.Unknown[0].ID
		if _, err := d.Resolve(ctx, id, decision.Failed, nil); err != nil {
			t.Error(err)
		}
		for _, outcome := range []decision.Status{decision.Done, decision.Unknown} {
			if _, err := d.Resolve(ctx, id, outcome, nil); !errors.Is(err, thole.ErrConflict) {
				t.Errorf("failed → %s: got %v, want ErrConflict", outcome, err)
			}
		}
		if got, err := d.Get(ctx, id); err != nil || got.Status != decision.Failed || got.Actor != "agent:a" {
			t.Errorf("got %+v, %v; want it failed", got, err)
		}
		var resolved []string
		for ev, err := range e.Space("project:shop").Events(ctx, thole.ReadQuery{Stream: decision.Stream, Types: []string{decision.TypeResolved}}) {
			var o decision.Outcome
			if err != nil || ev.As(&o) != nil {
				t.Fatal(err)
			}
			resolved = append(resolved, fmt.Sprintf("%s→%s", o.Previous, o.Outcome))
		}
		if got, want := fmt.Sprint(resolved), "[planned→done planned→done planned→failed planned→unknown planned→unknown unknown→failed]"; got != want {
			t.Errorf("events: got %s, want %s", got, want)
		}
	})
}

func TestTheIndexShowsOrdersAlwaysAndTheLastDecisions(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		d, ctx := decision.In(e.Space("project:shop")), t.Context()
		order, err := d.Order(ctx, decision.Plan{Action: "never push to main"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			plan(t, d, decision.Plan{Action: fmt.Sprint(i), Thread: "thrd_1"})
		}
		index, err := d.Index(ctx, nil)
		if err != nil || actions(index.Standing) != "[never push to main]" || len(index.Recent) != decision.IndexSize ||
			index.Recent[0].Action != "29" || index.Recent[19].Action != "10" {
			t.Errorf("got %s and %s, %v", actions(index.Standing), actions(index.Recent), err)
		}
		if got := incomplete(t, d); len(got) == 0 || actions(index.Standing) == got {
			t.Errorf("an order counts as unfinished: %s", got)
		}
		if _, err := d.Resolve(ctx, order.ID, decision.Failed, nil); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("an order that failed: got %v, want ErrConflict", err)
		}
		if _, err := d.Resolve(ctx, order.ID, decision.Done, "retired"); err != nil {
			t.Fatal(err)
		}
		if index, err = d.Index(ctx, &decision.IndexOptions{Recent: 3}); err != nil || len(index.Standing) != 0 || actions(index.Recent) != "[29 28 27]" {
			t.Errorf("after retiring: got %+v, %v", index, err)
		}
		// Pages list everything once, also with a filter.
		seen := 0
		for opts := (decision.ListOptions{Thread: "thrd_1", Incomplete: true, Limit: 7}); ; {
			page, err := d.List(ctx, &opts)
			if err != nil {
				t.Fatal(err)
			}
			for _, dec := range page.Items {
				if dec.Action != fmt.Sprint(seen) {
					t.Fatalf("got %s, want %d", dec.Action, seen)
				}
				seen++
			}
			if opts.After = page.Next; page.Next == "" {
				break
			}
		}
		if seen != 30 {
			t.Errorf("listed %d, want 30", seen)
		}
	})
}

func TestADecisionThatCannotBeReadIsNotTakenForAbsent(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		d := decision.In(sp)
		order, err := d.Order(ctx, decision.Plan{Action: "never push to main"})
		if err != nil {
			t.Fatal(err)
		}
		plan(t, d, decision.Plan{Action: "a"})
		bad := plan(t, d, decision.Plan{Action: "b"})
		damage := func(id string) {
			t.Helper()
			if _, err := sp.Update(ctx, func(tx *thole.Tx) error { tx.Put("decision/"+id, "bad", nil); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		damage(bad.ID)
		if got := incomplete(t, d); got != "[a]" {
			t.Errorf("the list shows %s, want [a]", got)
		}
		index, err := d.Index(ctx, nil)
		if err != nil || actions(index.Standing) != "[never push to main]" || actions(index.Recent) != "[a]" {
			t.Errorf("the index shows %+v, %v", index, err)
		}
		if _, err := d.Reconcile(ctx, nil, nil); !errors.Is(err, thole.ErrCorrupt) {
			t.Errorf("reconcile: %v, want ErrCorrupt", err)
		}
		for _, err = range d.All(ctx, decision.ListOptions{}) {
		}
		if !errors.Is(err, thole.ErrCorrupt) {
			t.Errorf("all: %v, want ErrCorrupt", err)
		}
		damage(order.ID)
		if _, err := d.Index(ctx, nil); !errors.Is(err, thole.ErrCorrupt) {
			t.Errorf("an index without an order in force: %v, want ErrCorrupt", err)
		}
	})
}

func TestAnActIsPlannedBeforeAndResolvedAfter(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		d := decision.In(e.Space("project:shop"))
		do := func(ctx context.Context, act func(context.Context) (any, error)) (decision.Decision, error) {
			return d.Do(ctx, decision.Plan{Action: "write"}, func(ctx context.Context) (any, error) {
				if got := incomplete(t, d); got != "[write]" {
					t.Errorf("during the act: got %s, want it planned", got)
				}
				return act(ctx)
			})
		}
		boom := errors.New("boom")
		dec, err := do(t.Context(), func(context.Context) (any, error) { return 1, nil })
		if err != nil || dec.Status != decision.Done || string(dec.Result) != "1" {
			t.Errorf("an act that works: got %+v, %v", dec, err)
		}
		dec, err = do(t.Context(), func(context.Context) (any, error) { return nil, boom })
		if !errors.Is(err, boom) || dec.Status != decision.Failed {
			t.Errorf("an act that fails: got %+v, %v", dec, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		dec, err = do(ctx, func(ctx context.Context) (any, error) { cancel(); return nil, ctx.Err() })
		if !errors.Is(err, context.Canceled) || dec.Status != decision.Unknown {
			t.Errorf("an act that is cancelled: got %+v, %v", dec, err)
		}
	})
}

func TestARepeatedActHappensOnce(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		d := decision.In(e.Space("project:shop"))
		acts := 0
		var ids [2]string
		for i := range ids {
			ctx := thole.WithIdempotencyKey(t.Context(), "once", "f")
			dec, err := d.Do(ctx, decision.Plan{Action: "pay"}, func(context.Context) (any, error) { acts++; return nil, nil })
			if err != nil {
				t.Fatal(err)
			}
			ids[i] = dec.ID
		}
		if acts != 1 || ids[0] != ids[1] {
			t.Errorf("acted %d times as %v, want once", acts, ids)
		}
	})
}

func TestBadDecisionsAreNamed(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		d, ctx := decision.In(e.Space("project:shop")), t.Context()
		_, noAction := d.Plan(ctx, decision.Plan{})
		_, badID := d.Get(ctx, "dec_../x")
		_, unknown := d.Get(ctx, thole.NewID("dec"))
		_, badOutcome := d.Resolve(ctx, thole.NewID("dec"), decision.Planned, nil)
		_, missing := d.Resolve(ctx, thole.NewID("dec"), decision.Done, nil)
		for name, c := range map[string]struct{ got, want error }{
			"no action": {noAction, thole.ErrInvalid}, "bad id": {badID, thole.ErrInvalid}, "unknown id": {unknown, thole.ErrNotFound},
			"bad outcome": {badOutcome, thole.ErrInvalid}, "resolve an unknown id": {missing, thole.ErrNotFound},
		} {
			if !errors.Is(c.got, c.want) {
				t.Errorf("%s: got %v, want %v", name, c.got, c.want)
			}
		}
	})
}

package statetest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

// Once a run has to end, or has ended, no decision is planned for it by any path. The
// outcome of an earlier one is still recorded, and standing orders and plans of other
// runs are accepted.
func TestNoDecisionIsMadeForARunThatIsToEnd(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:p")
		ctx := t.Context()
		th, err := thread.In(sp).Create(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		runs, ds := run.In(sp, nil), decision.In(sp)
		if _, err := runs.Start(ctx, th.ID, run.Request{Prompt: "x"}); err != nil {
			t.Fatal(err)
		}
		h, err := runs.Claim(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		acts := 0
		act := func(context.Context) (any, error) { acts++; return nil, nil }
		p := decision.Plan{Action: "charge", Run: h.ID()}
		if _, err := ds.Once(ctx, "done", p, act, nil); err != nil || acts != 1 {
			t.Fatalf("before the cancel: %d acts, %v", acts, err)
		}
		tries := 0
		_, err = sp.Update(ctx, func(tx *thole.Tx) error {
			if err := run.Go(tx, h.ID()); err != nil {
				return err
			}
			if tries++; tries == 1 {
				if _, err := runs.Cancel(ctx, h.ID(), run.ByUser); err != nil {
					t.Fatal(err)
				}
			}
			tx.Put("app/begun", true, nil)
			return nil
		})
		if !errors.Is(err, thole.ErrCancelled) {
			t.Errorf("a commit that the cancel overtook: got %v, want ErrCancelled", err)
		}
		refused := func(want error) {
			t.Helper()
			made := map[string]error{}
			_, made["Plan"] = decision.In(h.Space()).Plan(ctx, p)
			_, made["Do"] = ds.Do(ctx, p, act)
			_, made["Once"] = ds.Once(ctx, "new", p, act, nil)
			for way, err := range made {
				if !errors.Is(err, want) && !(way == "Plan" && errors.Is(err, thole.ErrFenced)) {
					t.Errorf("%s: got %v, want %v", way, err, want)
				}
			}
			if _, err := ds.Once(ctx, "done", p, act, nil); err != nil || acts != 1 {
				t.Errorf("after the first time: %d acts, %v", acts, err)
			}
		}
		refused(thole.ErrCancelled)
		if _, err := ds.Order(ctx, p); err != nil {
			t.Errorf("an order: %v", err)
		}
		if _, err := h.Finish(ctx, run.Succeeded, ""); err != nil {
			t.Fatal(err)
		}
		refused(thole.ErrConflict)
		if _, err := ds.Plan(ctx, decision.Plan{Action: "charge", Run: "elsewhere"}); err != nil {
			t.Errorf("for a run that is not known here: %v", err)
		}
		if page, err := ds.List(ctx, &decision.ListOptions{Incomplete: true, Run: h.ID()}); err != nil || len(page.Items) != 0 {
			t.Errorf("open: %+v, %v", page.Items, err)
		}
	})
}

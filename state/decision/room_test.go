package decision_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/statetest"
)

func TestADecisionThatWasTakenCanBeResolved(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, sp := t.Context(), e.Space("project:shop")
		d := decision.In(sp)
		// The largest input that is accepted.
		var dec decision.Decision
		least, most := 1, thole.MaxValueBytes
		for most-least > 1 {
			n := (least + most) / 2
			got, err := d.Plan(ctx, decision.Plan{Action: "pay", Input: json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`)})
			switch {
			case err == nil:
				dec, least = got, n
			case errors.Is(err, thole.ErrTooLarge):
				most = n
			default:
				t.Fatalf("input of %d bytes: got %v, want ErrTooLarge", n, err)
			}
		}
		for _, outcome := range []decision.Status{decision.Unknown, decision.Done} {
			if _, err := d.Resolve(ctx, dec.ID, outcome, strings.Repeat("y", 60<<10)); err != nil {
				t.Errorf("input of %d bytes, %s: %v", least, outcome, err)
			}
		}
	})
}

// An earlier version reserved no room.
func TestAnOldDecisionWithoutRoomCanBeResolved(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, sp := t.Context(), e.Space("project:shop")
		d := decision.In(sp)
		dec, err := d.Plan(ctx, decision.Plan{Action: "pay", Input: json.RawMessage(`"INPUT"`)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = sp.Update(ctx, func(tx *thole.Tx) error {
			rec, err := tx.Get("decision/" + dec.ID)
			large := strings.Repeat("x", thole.MaxValueBytes-len(rec.Value))
			tx.Put("decision/"+dec.ID, json.RawMessage(strings.Replace(string(rec.Value), "INPUT", large, 1)), nil)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.Resolve(ctx, dec.ID, decision.Done, nil); err != nil || got.Status != decision.Done || got.Action != "pay" {
			t.Errorf("got %.200v, %v; want it done", got, err)
		}
	})
}

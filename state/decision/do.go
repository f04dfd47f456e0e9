package decision

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/thole-dev/thole"
)

// Act carries out a decision and returns the result, which is stored as JSON.
type Act func(ctx context.Context) (result any, err error)

// Verify finds out whether a decision was carried out and returns done, failed or unknown,
// with a result. An error means unknown.
type Verify func(ctx context.Context, d Decision) (Status, any, error)

// keys is the prefix of the index of decisions by the key given to [Decisions.Once].
const keys = "decision-key/"

type keyed struct {
	ID string `json:"id"`
}

func keyOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return keys + hex.EncodeToString(sum[:16])
}

// Do records the plan, calls act and records the outcome: done with act's result, or failed
// with its error, which Do returns, too. If act fails after ctx has ended, the outcome is
// unknown, because the act may have happened in part. The plan is committed under the
// handle's fences, the outcome without them, so that it is recorded even if a lease was
// lost meanwhile.
//
// Under an idempotency key on ctx, Do acts at most once: the plan is durable before the act
// begins. A repeat within 24 h, through any context in any process, returns what
// [Decisions.Once] without a Verify returns for a repeat. Within one [thole.Operation] or
// [thole.Call] the n-th Do repeats the n-th of the first time. Keys of different actors are
// different keys.
func (d *Decisions) Do(ctx context.Context, p Plan, act Act) (Decision, error) {
	ctx = thole.Operation(ctx)
	m, err := d.record(ctx, p, Planned, open, true)
	if err != nil {
		return m.Decision, err
	}
	if m.repeated {
		return d.again(ctx, m.Decision, p.Run, act, nil)
	}
	return d.carryOut(ctx, m.Decision, m.lease, act)
}

// Once is Do that acts at most once under key, which is unique in the space and does not
// expire; ctx's idempotency key goes only to act. A repeat, by any caller in any process,
// returns the recorded outcome; for a failed one, with an error. While another call acts,
// it waits for the outcome. A call whose process died counts as acting for up to 30 s.
//
// If nobody acts and no outcome is recorded, the act may have happened: Once repeats an
// idempotent act, and calls verify for any other. If verify is nil, fails or returns
// unknown, the decision becomes unknown, for [Decisions.Resolve].
//
// Errors: those of [Decisions.Plan] before an act; those of act; *ReusedKeyError for a key
// used before with another action or input; ErrInvalid for an empty key; those of the
// store, after which call Once again; ErrConflict if the decision is unknown, if ctx ended
// while another call acted, or if another outcome was recorded during the act (it is
// returned).
func (d *Decisions) Once(ctx context.Context, key string, p Plan, act Act, verify Verify) (Decision, error) {
	if key == "" {
		return Decision{}, fmt.Errorf("%w: a decision that is made once needs a key", thole.ErrInvalid)
	}
	if err := p.check(); err != nil {
		return Decision{}, err
	}
	own := thole.WithoutIdempotencyKey(ctx)
	var dec Decision
	var was keyed
	var lease thole.Fence
	res, err := d.sp.Update(own, func(tx *thole.Tx) error {
		known, err := tx.Load(keyOf(key), &was)
		if err != nil || known {
			return err
		}
		if err := d.propose(tx, &dec, p, Planned, open); err != nil {
			return err
		}
		tx.Put(keyOf(key), keyed{ID: dec.ID}, nil)
		lease, err = begin(tx, dec.ID)
		return err
	})
	if err != nil {
		return Decision{}, fmt.Errorf("plan %.80q: %w", p.Action, err)
	}
	if was.ID == "" {
		dec.Version = res.Last
		return d.carryOut(ctx, dec, lease.At(res), act)
	}
	if dec, err = d.Get(own, was.ID); err != nil {
		return Decision{}, err
	}
	if dec.Action != p.Action || !sameJSON(dec.Input, p.Input) {
		return dec, &thole.ReusedKeyError{Key: key}
	}
	return d.again(ctx, dec, p.Run, act, verify)
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes()) || len(a)+len(b) == 0
}

// again answers a repeated call for dec. Run is the caller's run, or "".
func (d *Decisions) again(ctx context.Context, dec Decision, run string, act Act, verify Verify) (Decision, error) {
	if dec.Status == Planned {
		now, err := d.await(ctx, dec.ID, run)
		if err != nil {
			return dec, err
		}
		if dec = now.Decision; now.taken {
			return d.carryOut(ctx, dec, now.lease, act)
		}
	}
	if dec.Status == Planned || dec.Status == Unknown {
		settled, err := d.settle(ctx, dec, verify)
		if errors.Is(err, thole.ErrConflict) { // another process just resolved it
			settled, err = d.Get(ctx, dec.ID)
		}
		if err != nil {
			return dec, err
		}
		dec = settled
	}
	switch dec.Status {
	case Done:
		return dec, nil
	case Failed:
		return dec, fmt.Errorf("decision %s failed: %s", dec.ID, why(dec.Result))
	}
	return dec, fmt.Errorf("%w: decision %s was made before, and what came of it is %s", thole.ErrConflict, dec.ID, dec.Status)
}

// why returns the reason in the result of a failed decision.
func why(result json.RawMessage) string {
	var as struct {
		Error string `json:"error"`
	}
	var text string
	switch {
	case json.Unmarshal(result, &as) == nil && as.Error != "":
		return as.Error
	case json.Unmarshal(result, &text) == nil && text != "":
		return text
	case len(result) > 0:
		return fmt.Sprintf("%.500s", result)
	}
	return "no reason was recorded"
}

// carryOut acts under lease and records the outcome.
func (d *Decisions) carryOut(ctx context.Context, dec Decision, lease thole.Fence, act Act) (Decision, error) {
	result, acted := d.act(ctx, lease, act)
	outcome := Done
	if acted != nil {
		outcome, result = Failed, map[string]string{"error": acted.Error()}
		if ctx.Err() != nil {
			outcome = Unknown
		}
	}
	// The decision's own state guards the outcome; a lost lease must not hide it.
	free := In(d.sp.WithoutFences())
	ctx = context.WithoutCancel(thole.WithoutIdempotencyKey(ctx))
	resolved, err := free.Resolve(ctx, dec.ID, outcome, result)
	if errors.Is(err, thole.ErrInvalid) || errors.Is(err, thole.ErrTooLarge) {
		// Record the outcome even if the result cannot be stored.
		var kept error
		resolved, kept = free.Resolve(ctx, dec.ID, outcome, map[string]string{"error": "the result was not kept: " + err.Error()})
		err = errors.Join(err, kept)
	}
	if errors.Is(err, thole.ErrConflict) { // somebody else recorded an outcome
		if now, readErr := free.Get(ctx, dec.ID); readErr == nil {
			if resolved = now; now.Status == outcome {
				err = nil
			}
		}
	}
	if resolved.ID == "" {
		resolved = dec // it stays incomplete
	}
	return resolved, errors.Join(acted, err)
}

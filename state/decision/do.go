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

// Act does what was decided and returns its result, which becomes JSON.
type Act func(ctx context.Context) (result any, err error)

// Verify looks at reality and says whether a decision was carried out: done,
// failed or unknown, with a result. An error means unknown.
type Verify func(ctx context.Context, d Decision) (Status, any, error)

// keys indexes decisions by the key that [Decisions.Once] was given.
const keys = "decision-key/"

type keyed struct {
	ID string `json:"id"`
}

func keyOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return keys + hex.EncodeToString(sum[:16])
}

// Do plans, acts and records the outcome: done with what act returns, or failed
// with its error, which Do returns as well. An act whose context has ended may
// have happened in part: unknown. The plan is made under the handle's fences, the
// outcome without them: what happened is recorded even if a lease was lost
// meanwhile.
//
// Under an idempotency key on ctx it acts at most once: the plan is durable
// before the act begins, and a repeat within 24 h, through the same context or
// another one, in this process or another, acts no more but answers as
// [Decisions.Once] does without a Verify. The key counts per actor: under another
// one's name it is another key.
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

// Once is Do that acts at most once under key, which is unique in the space and
// does not expire; ctx's idempotency key is act's alone. Called again, by whoever
// in whichever process, it gives the recorded outcome: what failed is returned
// with an error. While another call acts it waits for the outcome, until ctx ends:
// ErrConflict. One whose process died counts as acting for up to 30 s. Where
// nobody acts and no outcome was recorded, the act may have happened: if the plan
// is idempotent it is done again, else verify says what came of it; when verify
// is nil or cannot tell, the decision becomes unknown, for [Decisions.Resolve],
// and that is ErrConflict.
//
// Errors: those of [Decisions.Plan] before an act; those of act; *ReusedKeyError for a key that was used for another
// action or input; ErrInvalid for an empty key; those of the store. After an
// error of the store that concerns the outcome, call it again. ErrConflict after
// an act: another outcome was recorded meanwhile, which is returned.
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

// again answers a repeat, for a run or for "", of what dec decided.
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
		if errors.Is(err, thole.ErrConflict) { // somebody else just did
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

// why says in words what the result of a failed decision tells.
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

// carryOut acts under lease and records what came of it.
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
		// That it was done must be known, even if the result cannot be kept.
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
		resolved = dec // it stays among the unfinished ones
	}
	return resolved, errors.Join(acted, err)
}

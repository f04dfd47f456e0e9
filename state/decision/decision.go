// Package decision records what an agent decided to do, before it acts, and the outcome.
// After a crash, the decisions without an outcome are the acts that may have happened: an
// idempotent act is done again, any other is verified, never inferred.
//
//	planned ──▶ done │ failed │ unknown        unknown ──▶ done │ failed
//	standing ─▶ done                           (a standing order, retired)
//
// The record decision/<id> holds the decision. Small records index the decisions without
// an outcome (decision-open/<id>), the orders in force (decision-standing/<id>) and the
// decisions made under a key (decision-key/<hash>). The process that acts holds the lease
// decision-act/<id>. Events go to the stream decision.
package decision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
)

// The stream and the types of this package's events.
const (
	Stream       = "decision"
	TypePlanned  = "decision.planned"  // holds a [Decision]
	TypeResolved = "decision.resolved" // holds an [Outcome]
)

// Status is the state of a decision.
type Status string

// The statuses of a decision.
const (
	Planned  Status = "planned"  // the act may or may not have happened
	Standing Status = "standing" // a rule in force
	Done     Status = "done"
	Failed   Status = "failed"
	Unknown  Status = "unknown" // someone must verify the act
)

// Plan describes an act before it happens, and the reason for it.
type Plan struct {
	Action     string          `json:"action" names:"masked" doc:"what is about to be done; in an order: what it governs" example:"write src/app.ts"`
	Decision   string          `json:"decision,omitempty" names:"masked" doc:"what was chosen"`
	Rationale  string          `json:"rationale,omitempty" names:"masked"`
	Input      json.RawMessage `json:"input,omitempty" names:"shown" doc:"the data needed to repeat or verify the act"`
	Refs       []string        `json:"refs,omitempty" names:"masked"`
	Idempotent bool            `json:"idempotent,omitempty" doc:"the act can safely be repeated"`
	Run        string          `json:"run,omitempty" names:"masked"`
	Thread     string          `json:"thread,omitempty" names:"masked"`
}

// Decision is a plan and its outcome.
type Decision struct {
	ID string `json:"id"`
	Plan
	Status   Status          `json:"status"`
	Result   json.RawMessage `json:"result,omitempty" names:"shown"`
	Actor    string          `json:"actor,omitempty"` // who decided
	Created  time.Time       `json:"created_at"`
	Resolved time.Time       `json:"resolved_at,omitzero"`
	Version  thole.Position  `json:"version,omitzero"`
}

// Outcome is the data of decision.resolved.
type Outcome struct {
	ID       string          `json:"id"`
	Outcome  Status          `json:"outcome"`
	Previous Status          `json:"previous"`
	Result   json.RawMessage `json:"result,omitempty" names:"shown"`
}

// Decisions are the decisions of one space.
type Decisions struct{ sp *thole.Space }

// In returns the decisions of sp, whose store must have been given [Concept].
func In(sp *thole.Space) *Decisions { return &Decisions{sp: sp.For(Name)} }

const (
	all      = "decision/"
	open     = "decision-open/"
	standing = "decision-standing/"
)

// Plan records an act before it happens. The act may begin only after Plan returns,
// because then the plan is durable. A repeat under an idempotency key records no second
// plan. Errors: ErrInvalid for a plan without an action; ErrTooLarge for one over
// 448 KiB; *run.CancelledError if its run is to end; ErrConflict if its run has ended.
func (d *Decisions) Plan(ctx context.Context, p Plan) (Decision, error) {
	made, err := d.record(ctx, p, Planned, open, false)
	return made.Decision, err
}

// Order records a standing order: a rule that is in force, and in every [Index], until
// [Decisions.Resolve] retires it. Errors: ErrInvalid and ErrTooLarge, as for Plan.
func (d *Decisions) Order(ctx context.Context, p Plan) (Decision, error) {
	made, err := d.record(ctx, p, Standing, standing, false)
	return made.Decision, err
}

// made is a new decision.
type made struct {
	Decision
	lease    thole.Fence // of its act, if the caller is about to do it
	repeated bool        // an earlier call had recorded it
}

// record stores a new decision. If acts is set, it also takes the lease of the act.
func (d *Decisions) record(ctx context.Context, p Plan, status Status, index string, acts bool) (made, error) {
	ctx = thole.Call(ctx, "decision."+string(status), p.Action)
	ctx = thole.Reread(ctx, func(ctx context.Context, events []thole.Event) (made, error) {
		var first Decision
		for _, e := range events {
			if e.Type == TypePlanned {
				if err := e.As(&first); err != nil {
					return made{}, err
				}
			}
		}
		now, err := d.Get(ctx, first.ID)
		return made{Decision: now}, err
	})
	if err := p.check(); err != nil {
		return made{}, err
	}
	m, r, err := thole.Update(ctx, d.sp, func(tx *thole.Tx) (m made, err error) {
		if err = d.propose(tx, &m.Decision, p, status, index); err == nil && acts {
			m.lease, err = begin(tx, m.ID)
		}
		return m, err
	})
	if err != nil {
		return made{}, fmt.Errorf("plan %.80q: %w", p.Action, err)
	}
	m.Version, m.lease, m.repeated = r.Last, r.Fence(m.lease), r.Repeated
	return m, nil
}

func (p *Plan) check() error {
	if p.Action == "" {
		return fmt.Errorf("%w: a decision needs an action", thole.ErrInvalid)
	}
	return nil
}

// maxPlan leaves room in a decision's record for the outcome.
const maxPlan = thole.MaxValueBytes - 64<<10

// propose makes *dec a new decision within tx. Errors: ErrTooLarge if the outcome might
// not fit into its record; those of mayBegin.
func (d *Decisions) propose(tx *thole.Tx, dec *Decision, p Plan, status Status, index string) error {
	if status == Planned {
		if err := mayBegin(tx, p.Run); err != nil {
			return err
		}
	}
	*dec = Decision{ID: thole.NewID("dec"), Plan: p, Status: status, Actor: d.sp.Actor(), Created: tx.Now()}
	tx.Put(all+dec.ID, dec, &thole.WriteOptions{Schema: thole.Schema})
	tx.Put(index+dec.ID, struct{}{}, nil)
	tx.Emit(Stream, TypePlanned, dec).Refs = p.Refs
	rec, err := tx.Get(all + dec.ID)
	if err == nil && len(rec.Value) > maxPlan {
		err = fmt.Errorf("%w: the plan has %d bytes, the limit is %d; keep larger content as a blob", thole.ErrTooLarge, len(rec.Value), maxPlan)
	}
	return err
}

// mayBegin returns an error if the run is to end or has ended: see [run.Go]. It accepts
// a run that does not exist in the space.
func mayBegin(tx *thole.Tx, id string) error {
	err := run.Go(tx, id)
	if errors.Is(err, thole.ErrInvalid) || errors.Is(err, thole.ErrNotFound) {
		return nil
	}
	return err
}

// Get returns a decision. Errors: ErrNotFound; ErrInvalid for a bad id.
func (d *Decisions) Get(ctx context.Context, id string) (Decision, error) {
	if err := thole.CheckID("dec", id); err != nil {
		return Decision{}, err
	}
	rec, err := d.sp.Get(ctx, all+id)
	if err != nil {
		return Decision{}, err
	}
	return read(id, rec)
}

func read(id string, rec thole.Record) (Decision, error) {
	if !rec.Exists() {
		return Decision{}, fmt.Errorf("decision %s: %w", id, thole.ErrNotFound)
	}
	var dec Decision
	err := rec.As(&dec)
	dec.Version = rec.Version
	return dec, err
}

// Resolve records the outcome of a decision: done, failed or unknown, with a result that
// may be nil. Done retires a standing order. An outcome done or failed is final; to
// resolve with the recorded outcome again, with the same result or nil, changes nothing.
// Errors: ErrConflict for another outcome after a final one; ErrNotFound; ErrInvalid.
func (d *Decisions) Resolve(ctx context.Context, id string, outcome Status, result any) (Decision, error) {
	ctx = thole.Call(ctx, "decision.resolve", id)
	ctx = thole.Reread(ctx, func(ctx context.Context, _ []thole.Event) (Decision, error) {
		return d.Get(ctx, id)
	})
	if err := thole.CheckID("dec", id); err != nil {
		return Decision{}, err
	}
	if !slices.Contains([]Status{Done, Failed, Unknown}, outcome) {
		return Decision{}, fmt.Errorf("%w: outcome %.40q is not done, failed or unknown", thole.ErrInvalid, outcome)
	}
	var raw json.RawMessage
	if result != nil {
		var err error
		if raw, err = json.Marshal(result); err != nil {
			return Decision{}, fmt.Errorf("%w: result of decision %s: %v", thole.ErrInvalid, id, err)
		}
	}
	dec, r, err := thole.Update(ctx, d.sp, func(tx *thole.Tx) (Decision, error) {
		rec, err := tx.Get(all + id)
		if err != nil {
			return Decision{}, err
		}
		dec, err := read(id, rec)
		if err != nil {
			return Decision{}, err
		}
		was := dec.Status
		if was == outcome && (raw == nil || sameJSON(raw, dec.Result)) {
			return dec, nil
		}
		if !was.leadsTo(outcome) {
			return Decision{}, fmt.Errorf("%w: decision %s is %s, it cannot become %s", thole.ErrConflict, id, was, outcome)
		}
		if len(rec.Value) > maxPlan { // of an earlier version; the event decision.planned keeps both fields
			dec.Rationale, dec.Input = "", nil
		}
		dec.Status, dec.Result, dec.Resolved, dec.Version = outcome, raw, tx.Now(), thole.Position{}
		tx.Put(all+id, dec, &thole.WriteOptions{Schema: thole.Schema})
		tx.Delete(standing + id)
		tx.Release(acts + id)
		if outcome != Unknown {
			tx.Delete(open + id)
		}
		tx.Emit(Stream, TypeResolved, Outcome{ID: id, Outcome: outcome, Previous: was, Result: raw}).Refs = []string{id}
		return dec, nil
	})
	if !r.First.IsZero() {
		dec.Version = r.Last
	}
	return dec, err
}

func (s Status) leadsTo(next Status) bool {
	switch s {
	case Planned:
		return true
	case Unknown:
		return next != Unknown
	case Standing:
		return next == Done
	}
	return false
}

package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/thole-dev/thole"
)

// ClaimOptions of [Runs.Claim].
type ClaimOptions struct {
	Agent  string        // whose runs; "": those that name no agent
	Name   string        // the agent that takes it, for a run that names none
	Wait   time.Duration // how long to wait for one; 0: not at all
	Holder string        // who takes it, for people; default a new id
}

// Claim takes the oldest run that waits for a worker of the agent and whose
// turn has come, under a lease, and starts it: its prompt enters the history
// and run.started is emitted in the same commit. Drive it with [Handle.Do], or
// renew its lease and finish it by hand. Of many that claim at once each gets
// another run. Errors: ErrNotFound when there is none in time; ErrClosed when
// the group is being drained; ctx's.
func (rs *Runs) Claim(ctx context.Context, opts *ClaimOptions) (*Handle, error) {
	var o ClaimOptions
	if opts != nil {
		o = *opts
	}
	if o.Holder == "" {
		o.Holder = thole.NewID("worker")
	}
	ctx = thole.WithoutIdempotencyKey(ctx)
	if o.Wait <= 0 {
		return rs.claim(ctx, &o)
	}
	waiting, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	// Watch before looking, so that nothing is missed between.
	w, err := rs.sp.Watch(waiting, &thole.WatchOptions{Types: []string{"run.queued", "run.finished"}, Durable: true})
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	defer w.Close()
	for {
		h, err := rs.claim(ctx, &o)
		if !errors.Is(err, thole.ErrNotFound) {
			return h, err
		}
		if _, werr := w.Next(waiting); werr != nil {
			if ctx.Err() == nil && waiting.Err() != nil {
				return nil, err
			}
			return nil, werr
		}
	}
}

// claim looks for a run once.
func (rs *Runs) claim(ctx context.Context, o *ClaimOptions) (*Handle, error) {
	if rs.opts.Group.draining() {
		return nil, fmt.Errorf("claim: %w: workers are being drained", thole.ErrClosed)
	}
	prefix := readyPrefix(o.Agent)
	for after := ""; ; {
		recs, err := rs.sp.List(ctx, thole.ListQuery{Prefix: prefix, After: after, Limit: 16})
		if err != nil {
			return nil, fmt.Errorf("claim: %w", err)
		}
		if len(recs) == 0 {
			return nil, fmt.Errorf("claim for agent %q: no run is waiting: %w", o.Agent, thole.ErrNotFound)
		}
		for _, rec := range recs {
			after = rec.Key
			h, err := rs.take(ctx, strings.TrimPrefix(rec.Key, prefix), rec, o)
			if h != nil || err != nil {
				return h, err
			}
		}
	}
}

// take starts the run that is ready; nil if somebody else was faster. It does so
// in the name of who asked, whose message that puts into the history.
func (rs *Runs) take(ctx context.Context, id string, rec thole.Record, o *ClaimOptions) (*Handle, error) {
	var by ready
	if err := rec.As(&by); err != nil {
		return nil, err
	}
	sp := rs.sp.Because(id)
	if by.AskedBy != "" {
		sp = sp.As(by.AskedBy)
	}
	var r *Run
	res, err := sp.Update(ctx, func(tx *thole.Tx) error {
		var err error
		r = nil
		found, err := load(tx, id)
		if err != nil && !errors.Is(err, thole.ErrNotFound) && !errors.Is(err, thole.ErrInvalid) {
			return err
		}
		tx.Delete(rec.Key)
		if err != nil || found.Status != Queued || !found.Ready || found.Reserved {
			return nil // a leftover
		}
		if found.Agent == "" {
			found.Agent = o.Name
		}
		err = found.begin(tx)
		if errors.Is(err, thole.ErrNotFound) { // its thread is gone
			return found.drop(tx)
		} else if err != nil {
			return err
		}
		r = found
		return tx.Acquire(key(id), o.Holder, rs.opts.Lease)
	})
	if err != nil || r == nil {
		return nil, err
	}
	return rs.handle(r, thole.LeaseFence(key(id), res)), nil
}

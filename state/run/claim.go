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
	Agent  string        // whose runs; "": those of no agent
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
			h, err := rs.take(ctx, strings.TrimPrefix(rec.Key, prefix), rec.Key, o.Holder)
			if h != nil || err != nil {
				return h, err
			}
		}
	}
}

// take starts one run for holder; nil if somebody else was faster.
func (rs *Runs) take(ctx context.Context, id, ready, holder string) (*Handle, error) {
	var r *Run
	res, err := rs.sp.Update(ctx, func(tx *thole.Tx) error {
		var err error
		r = nil
		found, err := load(tx, id)
		if err != nil && !errors.Is(err, thole.ErrNotFound) && !errors.Is(err, thole.ErrInvalid) {
			return err
		}
		if err != nil || found.Status != Queued || !found.Ready || found.Reserved {
			tx.Delete(ready) // a leftover
			return nil
		}
		err = found.begin(tx)
		if errors.Is(err, thole.ErrNotFound) { // its thread is gone
			return found.drop(tx)
		} else if err != nil {
			return err
		}
		r = found
		return tx.Acquire(key(id), holder, rs.opts.Lease)
	})
	if err != nil || r == nil {
		return nil, err
	}
	return rs.handle(r, thole.LeaseFence(key(id), res)), nil
}

package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
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
// another run; who repeats a call under an idempotency key, the one it got (see
// [Runs.Claimed]). Errors: ErrNotFound when there is none in time; ErrClosed when
// the group is being drained; ErrInvalid for a Name; ctx's. A claim that is on its
// way when ctx ends is returned.
func (rs *Runs) Claim(ctx context.Context, opts *ClaimOptions) (*Handle, error) {
	var o ClaimOptions
	if opts != nil {
		o = *opts
	}
	if o.Holder == "" {
		o.Holder = thole.NewID("worker")
	}
	if name := "agent:" + o.Name; len(name) > thole.MaxNameBytes || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return nil, fmt.Errorf("claim: %w: %.40q is no agent's name", thole.ErrInvalid, o.Name)
	}
	if h, err := rs.Claimed(ctx); !errors.Is(err, thole.ErrNotFound) {
		return h, err
	}
	if o.Wait <= 0 {
		return rs.claim(ctx, &o)
	}
	waiting, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	// Watch before looking, so that nothing is missed between.
	w, err := rs.sp.Watch(waiting, &thole.WatchOptions{Types: []string{"run.queued", "run.finished"}, Durable: true})
	if err != nil && ctx.Err() == nil && waiting.Err() != nil { // there was hardly time to look
		return rs.claim(ctx, &o)
	} else if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	defer w.Close()
	for {
		h, err := rs.claim(ctx, &o)
		if !errors.Is(err, thole.ErrNotFound) {
			return h, err
		}
		if werr := news(waiting, w); werr != nil {
			if ctx.Err() == nil && waiting.Err() != nil {
				return nil, err
			}
			return nil, werr
		}
	}
}

// claim looks for a run once.
func (rs *Runs) claim(ctx context.Context, o *ClaimOptions) (*Handle, error) {
	place := rs.opts.Group.enter()
	if place == nil {
		return nil, fmt.Errorf("claim: %w: workers are being drained", thole.ErrClosed)
	}
	h, err := rs.search(ctx, o)
	if err != nil {
		place.leave()
		return nil, err
	}
	h.place = place
	return h, nil
}

// search takes the first run that it can.
func (rs *Runs) search(ctx context.Context, o *ClaimOptions) (*Handle, error) {
	prefix := readyPrefix(o.Agent)
	for after := ""; ; {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("claim: %w", context.Cause(ctx))
		}
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

// errLeftover is a ready record of a run that cannot begin.
var errLeftover = errors.New("leftover")

// take starts the run that is ready; nil if somebody else was faster. It does so
// in the name of who asked, whose message that puts into the history.
func (rs *Runs) take(ctx context.Context, id string, rec thole.Record, o *ClaimOptions) (*Handle, error) {
	var by ready
	if err := rec.As(&by); err != nil {
		return nil, err
	}
	sp := rs.sp.Because(id)
	if by.AskedBy != "" {
		sp = sp.InNameOf(by.AskedBy)
	}
	ctx = context.WithoutCancel(ctx) // as in Do
	var r *Run
	res, err := sp.Update(ctx, func(tx *thole.Tx) (err error) {
		r, err = load(tx, id)
		if isNone(err) || err == nil && !r.claimable() {
			return errLeftover
		} else if err != nil {
			return err
		}
		if r.Agent == "" {
			r.Agent = o.Name
		}
		if err := r.begin(tx); errors.Is(err, thole.ErrNotFound) { // its thread is gone
			return errLeftover
		} else if err != nil {
			return err
		}
		tx.Delete(rec.Key)
		return tx.Acquire(key(id), o.Holder, rs.opts.Lease)
	})
	switch {
	case errors.Is(err, errLeftover):
		return nil, discard(thole.WithoutIdempotencyKey(ctx), sp, id, rec.Key)
	case err != nil:
		return nil, err
	case res.Repeated:
		return rs.claimed(ctx, res)
	}
	return rs.handle(r, thole.LeaseFence(key(id), res)), nil
}

// claimable reports whether a worker that comes by may have the run.
func (r *Run) claimable() bool { return r.Status == Queued && r.Ready && !r.Reserved }

// isNone reports whether loading a run failed because there is none of the id.
func isNone(err error) bool {
	return errors.Is(err, thole.ErrNotFound) || errors.Is(err, thole.ErrInvalid)
}

// discard removes the ready record of a run that cannot begin, and ends the run
// if it is its thread that is gone.
func discard(ctx context.Context, sp *thole.Space, id, ready string) error {
	_, err := sp.Update(ctx, func(tx *thole.Tx) error {
		r, err := load(tx, id)
		if isNone(err) || err == nil && !r.claimable() {
			tx.Delete(ready)
			return nil
		} else if err != nil {
			return err
		}
		_, err = thread.Load(tx, r.Thread)
		if errors.Is(err, thole.ErrNotFound) {
			err = r.drop(tx)
		}
		return err
	})
	return err
}

// Claimed returns the run that an earlier Claim under ctx's idempotency key
// took, for a worker that lost the answer. Errors: ErrNotFound when there was
// none, ErrFenced when the worker does not hold the run any more.
func (rs *Runs) Claimed(ctx context.Context) (*Handle, error) {
	res, repeats, err := rs.sp.Earlier(ctx)
	if err == nil && !repeats {
		err = thole.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("claimed earlier: %w", err)
	}
	return rs.claimed(ctx, res)
}

// claimed returns the run that was claimed in an earlier commit.
func (rs *Runs) claimed(ctx context.Context, res thole.Result) (*Handle, error) {
	ctx = thole.WithoutIdempotencyKey(ctx)
	events, err := rs.sp.Repeat(ctx, res)
	if err != nil {
		return nil, err
	}
	var started Event
	var added thread.Added
	for _, e := range events {
		switch e.Type {
		case "run.started":
			err = e.As(&started)
		case "message.added":
			err = e.As(&added)
		}
		if err != nil {
			return nil, err
		}
	}
	if started.Run == "" {
		return nil, errNoRun
	}
	h, err := rs.Attach(ctx, started.Run, thole.LeaseFence(key(started.Run), res))
	if err == nil && added.Message != nil {
		h.request = added.Message.Blocks
	}
	return h, err
}

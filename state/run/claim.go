package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// ClaimOptions of [Runs.Claim].
type ClaimOptions struct {
	Agent  string        // whose runs; "": those that name no agent
	Name   string        // the agent that takes it, for a run that names none
	Wait   time.Duration // how long to wait for one; 0: not at all
	Holder string        // who takes it, for people; default a new id
	// May says whether the caller may work in a run's thread. To it, the runs of
	// other threads are not there. Nil: it may work in all.
	May func(*thread.Thread) bool
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
	ctx = thole.Call(ctx, "run.claim")
	var o ClaimOptions
	if opts != nil {
		o = *opts
	}
	if o.Holder == "" {
		o.Holder = thole.NewID("worker")
	}
	err := errors.Join(thole.AgentName.CheckOptional(o.Agent), thole.AgentName.CheckOptional(o.Name), holderName.Check(o.Holder))
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
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

// search takes the first run that it can. One that cannot begin as it is stored
// ends as failed, and holds up no other.
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

// Why a ready run is not taken.
var (
	errLeftover = errors.New("leftover") // it cannot begin
	errNotOurs  = errors.New("not ours") // the caller may not work in its thread
)

// take starts the run that is ready; nil if somebody else was faster, the caller
// may not work in its thread, or it cannot begin. It does so
// in the name of who asked, whose message that puts into the history.
func (rs *Runs) take(ctx context.Context, id string, rec thole.Record, o *ClaimOptions) (*Handle, error) {
	var by ready
	_ = rec.As(&by) // one that cannot be read names nobody
	sp := rs.sp.Because(id)
	if by.AskedBy != "" {
		sp = sp.InNameOf(by.AskedBy)
	}
	ctx = context.WithoutCancel(ctx) // as in Do
	var r *Run
	var fence thole.Fence
	res, err := sp.Update(ctx, func(tx *thole.Tx) (err error) {
		r, err = load(tx, id)
		if isNone(err) || err == nil && !r.claimable() {
			return errLeftover
		} else if err != nil {
			return err
		}
		if o.May != nil {
			switch t, err := thread.Load(tx, r.Thread); {
			case errors.Is(err, thole.ErrNotFound):
				return errLeftover
			case err != nil:
				return err
			case !o.May(t):
				return errNotOurs
			}
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
		fence, err = tx.Acquire(key(id), o.Holder, rs.opts.Lease)
		return err
	})
	switch {
	case errors.Is(err, errNotOurs):
		return nil, nil
	case errors.Is(err, errLeftover):
		return nil, discard(thole.WithoutIdempotencyKey(ctx), sp, id, rec.Key)
	case sick(err):
		return nil, fail(thole.WithoutIdempotencyKey(ctx), sp, id, rec.Key, err)
	case err != nil:
		return nil, err
	case res.Repeated:
		return rs.claimed(ctx, res)
	}
	return rs.handle(r, fence.At(res)), nil
}

// claimable reports whether a worker that comes by may have the run.
func (r *Run) claimable() bool { return r.Status == Queued && r.own.Ready && !r.own.Reserved }

// isNone reports whether loading a run failed because there is none of the id.
func isNone(err error) bool {
	return errors.Is(err, thole.ErrNotFound) || errors.Is(err, thole.ErrInvalid)
}

// discard removes the ready record of a run that cannot begin, and ends the run
// if it is its thread that is gone.
func discard(ctx context.Context, sp *thole.Space, id, ready string) error {
	return setAside(ctx, sp, id, ready, func(tx *thole.Tx, r *Run) error {
		_, err := thread.Load(tx, r.Thread)
		if errors.Is(err, thole.ErrNotFound) {
			err = r.drop(tx)
		}
		return err
	})
}

// setAside does what is to become of a run that waits for a worker, or removes the ready
// record of one that does not.
func setAside(ctx context.Context, sp *thole.Space, id, ready string, do func(tx *thole.Tx, r *Run) error) error {
	_, err := sp.Update(ctx, func(tx *thole.Tx) error {
		r, err := load(tx, id)
		switch {
		case isNone(err) || err == nil && !r.claimable():
			tx.Delete(ready)
			return nil
		case err != nil:
			return err
		}
		return do(tx, r)
	})
	return err
}

// sick reports whether an error of a commit is about what the commit reads and
// writes, so that it would fail again.
func sick(err error) bool {
	return !errors.As(err, new(*thole.ReusedKeyError)) &&
		(errors.Is(err, thole.ErrInvalid) || errors.Is(err, thole.ErrTooLarge) || errors.Is(err, thole.ErrCorrupt))
}

// fail ends a run that cannot begin, for the given reason. One that cannot end
// either stays as it is, for doctor and those who mend it.
func fail(ctx context.Context, sp *thole.Space, id, ready string, reason error) error {
	err := setAside(ctx, sp, id, ready, func(tx *thole.Tx, r *Run) error {
		return r.finish(tx, Failed, brief(reason.Error()))
	})
	if sick(err) {
		return nil
	}
	return err
}

// Claimed returns the run that an earlier Claim under ctx's idempotency key
// took, for a worker that lost the answer. The worker gets a new fence, and what
// still uses the earlier one is fenced. Errors: ErrNotFound when there was none,
// ErrFenced when the worker does not hold the run any more.
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
	var fence thole.Fence
	again, err := rs.sp.Update(ctx, func(tx *thole.Tx) (err error) {
		fence, err = tx.Reacquire(key(started.Run), res.Last, rs.opts.Lease)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claimed earlier: %w", err)
	}
	r, err := rs.Peek(ctx, started.Run)
	if err != nil {
		return nil, fmt.Errorf("claimed earlier: %w", err)
	}
	h := rs.handle(r, fence.At(again)) // which another repeat may have fenced by now
	if added.Message != nil {
		h.request = added.Message.Blocks
	}
	return h, nil
}

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
	Agent  string        // the agent whose runs to claim; "": runs that name no agent
	Name   string        // the agent recorded in a run that names none
	Wait   time.Duration // how long to wait for a run; 0: not at all
	Holder string        // name of the worker, shown to people; default a new id
	// May reports whether the caller may work in a run's thread; Claim skips the runs
	// of other threads. Nil: the caller may work in all threads.
	May func(*thread.Thread) bool
}

// Claim takes the agent's oldest ready run under a lease and starts it: one commit
// puts its prompt into the history and emits run.started. Drive the run with
// [Handle.Do], or renew its lease and finish it by hand. Concurrent claims get
// different runs. A repeat under an idempotency key gets the same run and the same
// fence, whose lease may have been lost since. If ctx ends while a claim is being
// committed, Claim still returns that run. Errors: ErrNotFound when no run became
// ready within Wait; ErrClosed when the group is drained; ErrInvalid for an invalid
// Agent, Name or Holder; ctx's cause.
func (rs *Runs) Claim(ctx context.Context, opts *ClaimOptions) (*Handle, error) {
	ctx = thole.Call(ctx, "run.claim")
	ctx = thole.Reread(ctx, rs.rereadClaimed)
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
	var at *member
	c, r, err := thole.Do(ctx, rs.sp, func(ctx context.Context) (c claimed, r thole.Receipt, err error) {
		err = rs.await(ctx, o.Wait, func() (err error) {
			c, r, at, err = rs.claim(ctx, &o)
			return err
		})
		return c, r, err
	})
	if err != nil {
		return nil, err
	}
	c.Run.Version = r.Last
	h := rs.handle(c.Run, r.Fence(c.Fence))
	h.member, h.request, h.claimed = at, c.Request, c.Run
	return h, nil
}

// claimed is the answer of the commit that claims a run. Its fence has no token yet.
type claimed struct {
	Run     *Run           `json:"run"`
	Request []thread.Block `json:"request,omitempty"`
	Fence   thole.Fence    `json:"fence"`
}

// await calls look until it finds a run, fails, or wait has passed.
func (rs *Runs) await(ctx context.Context, wait time.Duration, look func() error) error {
	if wait <= 0 {
		return look()
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	// Watch before looking, so that nothing is missed between.
	w, err := rs.sp.Watch(waiting, &thole.WatchOptions{Types: []string{"run.queued", "run.finished"}, Durable: true})
	if err != nil && ctx.Err() == nil && waiting.Err() != nil { // wait was too short for the watch to open
		return look()
	} else if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	defer w.Close()
	for {
		err := look()
		if !errors.Is(err, thole.ErrNotFound) {
			return err
		}
		if werr := news(waiting, w); werr != nil {
			if ctx.Err() == nil && waiting.Err() != nil {
				return err
			}
			return werr
		}
	}
}

// claim looks for a run once. It also returns the run as a member of the group.
func (rs *Runs) claim(ctx context.Context, o *ClaimOptions) (c claimed, r thole.Receipt, at *member, err error) {
	if at = rs.opts.Group.enter(); at == nil {
		return c, r, nil, fmt.Errorf("claim: %w: workers are being drained", thole.ErrClosed)
	}
	if c, r, err = rs.search(ctx, o); err != nil {
		at.leave()
	}
	return c, r, at, err
}

// search claims the first ready run that it can. A run whose stored record cannot
// begin ends as failed, so that it does not block the others.
func (rs *Runs) search(ctx context.Context, o *ClaimOptions) (c claimed, r thole.Receipt, _ error) {
	prefix := readyPrefix(o.Agent)
	for after := ""; ; {
		if ctx.Err() != nil {
			return c, r, fmt.Errorf("claim: %w", context.Cause(ctx))
		}
		recs, err := rs.sp.List(ctx, thole.ListQuery{Prefix: prefix, After: after, Limit: 16})
		if err != nil {
			return c, r, fmt.Errorf("claim: %w", err)
		}
		if len(recs) == 0 {
			return c, r, fmt.Errorf("claim for agent %q: no run is waiting: %w", o.Agent, thole.ErrNotFound)
		}
		for _, rec := range recs {
			after = rec.Key
			c, r, err := rs.take(ctx, strings.TrimPrefix(rec.Key, prefix), rec, o)
			if c.Run != nil || err != nil {
				return c, r, err
			}
		}
	}
}

// Why take skips a ready run.
var (
	errLeftover = errors.New("leftover") // it cannot begin
	errNotOurs  = errors.New("not ours") // the caller may not work in its thread, or not now
)

// take starts the ready run. Its result has no run if another worker was faster, the
// caller may not work in the run's thread, or the run cannot begin, or not now. The commit's
// actor is whoever asked for the run, because it writes their message into the history.
func (rs *Runs) take(ctx context.Context, id string, rec thole.Record, o *ClaimOptions) (claimed, thole.Receipt, error) {
	var by ready
	_ = rec.As(&by) // an unreadable record names no actor
	sp := rs.sp.Because(id)
	if by.AskedBy != "" {
		sp = sp.InNameOf(by.AskedBy)
	}
	ctx = context.WithoutCancel(ctx) // as in Do
	c, receipt, err := thole.Update(ctx, sp, func(tx *thole.Tx) (c claimed, err error) {
		r, err := load(tx, id)
		if isNone(err) || err == nil && !r.claimable() {
			return c, errLeftover
		} else if err != nil {
			return c, err
		}
		if o.May != nil {
			switch t, err := thread.Load(tx, r.Thread); {
			case errors.Is(err, thole.ErrNotFound):
				return c, errLeftover
			case err != nil:
				return c, err
			case !o.May(t):
				return c, errNotOurs
			}
		}
		if r.Agent == "" {
			r.Agent, r.own.Unnamed = o.Name, o.Name != ""
		}
		if err := r.begin(tx); errors.Is(err, thole.ErrNotFound) { // its thread is destroyed
			return c, errLeftover
		} else if errors.Is(err, thole.ErrConflict) { // a turn of its thread is open, which should not happen
			return c, errNotOurs
		} else if err != nil {
			return c, err
		}
		tx.Delete(rec.Key)
		r.Updated = tx.Now()
		c.Run, c.Request = r, r.asked
		c.Fence, err = tx.Acquire(key(id), o.Holder, rs.opts.Lease)
		return c, err
	})
	var none claimed
	switch {
	case errors.Is(err, errNotOurs):
		return none, receipt, nil
	case errors.Is(err, errLeftover):
		return none, receipt, discard(thole.WithoutIdempotencyKey(ctx), sp, id, rec.Key)
	case sick(err):
		return none, receipt, fail(thole.WithoutIdempotencyKey(ctx), sp, id, rec.Key, err)
	}
	return c, receipt, err
}

// claimable reports whether any worker may claim the run.
func (r *Run) claimable() bool { return r.Status == Queued && r.own.Ready && !r.own.Reserved }

// isNone reports whether loading a run failed because no run has the id.
func isNone(err error) bool {
	return errors.Is(err, thole.ErrNotFound) || errors.Is(err, thole.ErrInvalid)
}

// discard deletes the ready record of a run that cannot begin, and cancels the run if
// its thread is destroyed.
func discard(ctx context.Context, sp *thole.Space, id, ready string) error {
	return setAside(ctx, sp, id, ready, func(tx *thole.Tx, r *Run) error {
		_, err := thread.Load(tx, r.Thread)
		if errors.Is(err, thole.ErrNotFound) {
			err = r.drop(tx)
		}
		return err
	})
}

// setAside calls do for a claimable run. For any other it deletes the ready record. A run
// that cannot end, because of what is stored of it or its thread, stays as it is, for
// doctor to report and people to repair: it must not hold up others.
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
	if sick(err) {
		return nil
	}
	return err
}

// sick reports whether a commit failed because of the data that it reads and writes,
// so that it would fail again.
func sick(err error) bool {
	return !errors.As(err, new(*thole.ReusedKeyError)) &&
		(errors.Is(err, thole.ErrInvalid) || errors.Is(err, thole.ErrTooLarge) || errors.Is(err, thole.ErrCorrupt))
}

// fail ends a run that cannot begin as failed, with the given reason.
func fail(ctx context.Context, sp *thole.Space, id, ready string, reason error) error {
	return setAside(ctx, sp, id, ready, func(tx *thole.Tx, r *Run) error {
		return r.finish(tx, Failed, brief(reason.Error()))
	})
}

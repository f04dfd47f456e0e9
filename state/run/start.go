package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// Request asks for a run. The zero value answers the thread's last message.
type Request struct {
	Prompt       string          // a text block in front of Blocks
	Blocks       []thread.Block  // of the user's message; none and no Prompt: the last message is answered
	Agent        string          // who is to do it; default: the thread's assistant
	Model        string          // empty: the agent chooses
	Policy       string          // when another run is active; default enqueue
	OnDisconnect string          // continue (default) or cancel, for whoever serves the connection
	Parent       string          // the run whose sub-agent this is
	ResumedFrom  string          // the ended run of this thread that this one goes on from
	Timeout      time.Duration   // from its start, in whole seconds rounded up; 0: none
	Options      json.RawMessage // for the agent; stored with the run
}

func (q *Request) blocks() []thread.Block {
	if q.Prompt == "" {
		return slices.Clone(q.Blocks)
	}
	return append([]thread.Block{thread.TextBlock(q.Prompt)}, q.Blocks...)
}

func (q *Request) check() error {
	if q.Policy == "" {
		q.Policy = Enqueue
	}
	if q.OnDisconnect == "" {
		q.OnDisconnect = "continue"
	}
	switch {
	case !slices.Contains([]string{Enqueue, Reject, Interrupt, Rollback}, q.Policy):
		return fmt.Errorf("%w: policy %.40q is not enqueue, reject, interrupt or rollback", thole.ErrInvalid, q.Policy)
	case q.OnDisconnect != "continue" && q.OnDisconnect != "cancel":
		return fmt.Errorf("%w: on_disconnect %.40q is neither continue nor cancel", thole.ErrInvalid, q.OnDisconnect)
	case q.Timeout < 0:
		return fmt.Errorf("%w: timeout %v is negative", thole.ErrInvalid, q.Timeout)
	case q.Options != nil:
		return thole.CheckJSON("options", q.Options)
	}
	return nil
}

// Start makes a run in the thread and returns it: queued for a worker to claim,
// or waiting in line behind the active one as its policy says. Its prompt is
// not in the history before it starts. With a Parent, the thread is a new
// private one if threadID is "", and must not be the parent's.
//
// Repeated under an idempotency key it returns the first one. Errors:
// ErrNotFound for a thread or run that is not there; ErrConflict by policy
// reject, or for a ResumedFrom that has not ended; ErrCancelled under a parent
// that was cancelled; ErrTooLarge when the queue is full; ErrInvalid. It is one
// commit.
func (rs *Runs) Start(ctx context.Context, threadID string, req Request) (*Run, error) {
	var r *Run
	var rest []string
	res, err := rs.sp.Update(ctx, func(tx *thole.Tx) (err error) {
		r, rest, err = rs.start(tx, threadID, req, "")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("start run in %s: %w", threadID, err)
	}
	if res.Repeated {
		return rs.repeated(ctx, res)
	}
	if err := cancelTree(thole.WithoutIdempotencyKey(ctx), rs.sp, rest, BySuperseded); err != nil {
		return nil, fmt.Errorf("start run %s: cancel what it supersedes: %w", r.ID, err)
	}
	return rs.Get(ctx, r.ID)
}

// repeated returns the run that an earlier Start under the same idempotency key
// made.
func (rs *Runs) repeated(ctx context.Context, res thole.Result) (*Run, error) {
	events, err := rs.sp.Repeat(ctx, res)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		var data Event
		if e.Type != "run.queued" {
			continue
		}
		if err := e.As(&data); err != nil {
			return nil, err
		}
		return rs.Get(ctx, data.Run)
	}
	return nil, errNoRun
}

// errNoRun is a receipt of something else.
var errNoRun = fmt.Errorf("%w: the earlier result under this idempotency key is no run", thole.ErrCorrupt)

// start makes a run within tx. With a holder it is reserved for it, under a
// lease from now on, and begins at once if it may. It also returns the runs
// that are to be cancelled with what it supersedes and did not fit in.
func (rs *Runs) start(tx *thole.Tx, threadID string, req Request, holder string) (_ *Run, rest []string, _ error) {
	if err := req.check(); err != nil {
		return nil, nil, err
	}
	r := &Run{
		ID: thole.NewID("run"), Status: Queued, Agent: req.Agent, AskedBy: rs.sp.Actor(), Model: req.Model, Policy: req.Policy,
		OnDisconnect: req.OnDisconnect, Parent: req.Parent, ResumedFrom: req.ResumedFrom, Request: req.blocks(),
		Options: req.Options, Timeout: int64((req.Timeout + time.Second - 1) / time.Second),
		Created: tx.Now(), Reserved: holder != "",
	}
	if err := thread.CheckBlocks(r.Request); err != nil {
		return nil, nil, err
	}
	if r.Parent != "" {
		var err error
		if threadID, err = r.adopt(tx, threadID); err != nil {
			return nil, nil, err
		}
	}
	t, err := thread.Load(tx, threadID)
	if err != nil {
		return nil, nil, err
	}
	r.Thread, r.Slot = t.ID, slotKey(t)
	if r.Agent == "" {
		r.Agent = t.Assistant
	}
	if err := r.apart(tx); err != nil {
		return nil, nil, err
	}
	if err := r.resume(tx); err != nil {
		return nil, nil, err
	}
	if holder != "" {
		if err := tx.Acquire(key(r.ID), holder, rs.opts.Lease); err != nil {
			return nil, nil, err
		}
	}
	tx.Put(thread.Key(t.ID)+"/run/"+r.ID, struct{}{}, nil)
	if _, err := tx.Get(key(r.ID)); err != nil { // so that it is found again in this Tx
		return nil, nil, err
	}
	if err := r.grow(tx); err != nil {
		return nil, nil, err
	}
	if rest, err = r.line(tx); err != nil {
		return nil, nil, err
	}
	if r, err = load(tx, r.ID); err != nil {
		return nil, nil, err
	}
	if r.Ready && holder != "" {
		return r, rest, r.begin(tx)
	}
	r.emit(tx, "run.queued", Event{Agent: r.Agent, Model: r.Model, Parent: r.Parent, ResumedFrom: r.ResumedFrom})
	return r, rest, nil
}

// adopt makes r a child of its parent and returns its thread.
func (r *Run) adopt(tx *thole.Tx, threadID string) (string, error) {
	p, err := load(tx, r.Parent)
	if err != nil {
		return "", err
	}
	switch {
	case p.Cancel != nil:
		return "", &CancelledError{Run: p.ID, Cause: p.Cancel.Cause}
	case p.Ended():
		return "", fmt.Errorf("%w: parent run %s has ended", thole.ErrConflict, p.ID)
	}
	// Writing the parent makes a concurrent cancel of it see this child.
	p.Children++
	p.put(tx)
	tx.Put(key(p.ID)+"/child/"+r.ID, struct{}{}, nil)
	if threadID != "" {
		return threadID, nil
	}
	pt, err := thread.Load(tx, p.Thread)
	if err != nil {
		return "", err
	}
	t, err := thread.Create(tx, thread.CreateOptions{
		Assistant: r.Agent, Visibility: thread.Private, Owner: pt.Owner, TTL: seconds(pt.TTL), Parent: pt.ID,
	})
	if err != nil {
		return "", err
	}
	return t.ID, nil
}

// apart refuses a child that would wait in line behind its own parent.
func (r *Run) apart(tx *thole.Tx) error {
	if r.Parent == "" {
		return nil
	}
	p, err := load(tx, r.Parent)
	if err == nil && (p.Slot == r.Slot || p.Thread == r.Thread) {
		err = fmt.Errorf("%w: a sub-agent's run works in a thread of its own", thole.ErrInvalid)
	}
	return err
}

// resume checks the run that r goes on from and takes over what it asked for
// and never began.
func (r *Run) resume(tx *thole.Tx) error {
	if r.ResumedFrom == "" {
		return nil
	}
	old, err := load(tx, r.ResumedFrom)
	switch {
	case err != nil:
		return err
	case old.Thread != r.Thread:
		return fmt.Errorf("%w: run %s is of another thread", thole.ErrInvalid, old.ID)
	case !old.Ended():
		return fmt.Errorf("%w: run %s has not ended", thole.ErrConflict, old.ID)
	}
	if old.Turn == "" && len(r.Request) == 0 {
		r.Request = old.Request
	}
	return nil
}

// line puts r in line as its policy says, and lets the first in if it may. It
// returns the runs that are still to be cancelled.
func (r *Run) line(tx *thole.Tx) (rest []string, _ error) {
	active, rest, err := occupant(tx, r.Slot)
	if err != nil {
		return nil, err
	}
	s, err := loadSlot(tx, r.Slot)
	if err != nil {
		return nil, err
	}
	switch {
	case active != nil && r.Policy == Reject:
		return nil, fmt.Errorf("%w: run %s is active", thole.ErrConflict, active.ID)
	case len(s.Queue) >= maxQueue:
		return nil, fmt.Errorf("%w: %d runs are waiting already", thole.ErrTooLarge, len(s.Queue))
	case active != nil && (r.Policy == Interrupt || r.Policy == Rollback):
		// In front first: the active one may end here and now, and lets it in.
		s.Queue = slices.Insert(s.Queue, 0, r.ID)
		s.put(tx)
		c := canceller{tx: tx, cause: BySuperseded}
		err := c.cancel(active, r.Policy == Rollback)
		return append(rest, c.rest...), err
	}
	s.Queue = append(s.Queue, r.ID)
	return rest, s.promote(tx)
}

// maxDead bounds how many dead runs one commit ends.
const maxDead = 8

// occupant returns the run that is active in the slot, nil if none is. Those
// whose workers are dead it ends first; it returns those of them that leave
// sub-agents' runs behind.
func occupant(tx *thole.Tx, key string) (active *Run, orphaned []string, _ error) {
	for range maxDead {
		s, err := loadSlot(tx, key)
		if err != nil || s.Active == "" {
			return nil, orphaned, err
		}
		active, err = load(tx, s.Active)
		if errors.Is(err, thole.ErrNotFound) || err == nil && active.Ended() {
			s.leave(s.Active) // cannot be, but must not block the slot for ever
			if err := s.promote(tx); err != nil {
				return nil, nil, err
			}
			active = nil
			continue
		} else if err != nil {
			return nil, nil, err
		}
		if dead, err := active.dead(tx); err != nil || !dead {
			return active, orphaned, err
		}
		if active.Children > 0 {
			orphaned = append(orphaned, active.ID)
		}
		if err := active.finish(tx, Crashed, crashReason); err != nil {
			return nil, nil, err
		}
	}
	// Whoever is in the slot now, alive or not, is for the next one to judge.
	s, err := loadSlot(tx, key)
	if err != nil || s.Active == "" {
		return nil, orphaned, err
	}
	active, err = load(tx, s.Active)
	return active, orphaned, err
}

// Resume makes a run that goes on where an ended one stopped: in the same
// thread, for the same agent, with the options it had. The worker finds the
// interrupted turn in the history. Errors: ErrNotFound; ErrConflict when the
// run has not ended, did succeed, or another one is active.
func (rs *Runs) Resume(ctx context.Context, id string) (*Run, error) {
	old, err := rs.Get(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	if !old.Ended() || old.Status == Succeeded {
		return nil, fmt.Errorf("resume run %s: %w: it is %s", id, thole.ErrConflict, old.Status)
	}
	return rs.Start(ctx, old.Thread, Request{
		Agent: old.Agent, Model: old.Model, Policy: Reject, OnDisconnect: old.OnDisconnect,
		ResumedFrom: id, Timeout: seconds(old.Timeout), Options: old.Options,
	})
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

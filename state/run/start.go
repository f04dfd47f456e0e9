package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
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
	}
	if err := thole.CheckTTL("a timeout", q.Timeout); err != nil {
		return err
	}
	if q.Options != nil {
		if err := journal.CheckJSON("options", q.Options); err != nil {
			return err
		}
	}
	return modelName.CheckOptional(q.Model)
}

// Start makes a run in the thread and returns it: queued for a worker to claim,
// or waiting in line behind the active one as its policy says. Its prompt is
// not in the history before it starts. With a Parent, the thread is a new
// private one if threadID is "", and must be one whose Parent is the parent's thread.
//
// Repeated under an idempotency key it returns the first one. Errors:
// ErrNotFound for a thread or run that is not there; ErrConflict by policy
// reject, or for a ResumedFrom that has not ended or was resumed before; ErrCancelled under a parent
// that was cancelled; ErrTooLarge when the queue is full; ErrInvalid. It is one
// commit.
func (rs *Runs) Start(ctx context.Context, threadID string, req Request) (*Run, error) {
	ctx = thole.Call(ctx, "run.start", threadID)
	ctx = thole.Reread(ctx, rs.rereadStarted)
	s, r, err := rs.commitStart(ctx, threadID, req)
	if err != nil {
		return nil, fmt.Errorf("start run in %s: %w", threadID, err)
	}
	return rs.started(ctx, s, r)
}

// started is the answer of the commit that makes a run.
type started struct {
	Run   *Run        `json:"run"`
	Rest  []string    `json:"rest,omitempty"` // runs that are to be cancelled with what it supersedes
	Fence thole.Fence `json:"fence,omitzero"` // of one that is reserved for its starter
}

func (rs *Runs) commitStart(ctx context.Context, threadID string, req Request) (started, thole.Receipt, error) {
	return thole.Update(ctx, rs.sp, func(tx *thole.Tx) (started, error) { return rs.start(tx, threadID, req, "") })
}

// started does what follows the commit that made a run, which may have been the
// commit of an earlier call, and returns the run as it was then.
func (rs *Runs) started(ctx context.Context, s started, r thole.Receipt) (*Run, error) {
	if err := cancelTree(thole.WithoutIdempotencyKey(ctx), rs.sp, s.Rest, BySuperseded); err != nil {
		return nil, fmt.Errorf("start run %s: cancel what it supersedes: %w", s.Run.ID, err)
	}
	s.Run.Version = r.Last
	return s.Run, nil
}

// start makes a run within tx. With a holder it is reserved for it, under a
// lease from now on, and begins at once if it may. It also returns the runs
// that are to be cancelled with what it supersedes and did not fit in.
func (rs *Runs) start(tx *thole.Tx, threadID string, req Request, holder string) (s started, _ error) {
	if err := req.check(); err != nil {
		return s, err
	}
	r := &Run{
		ID: thole.NewID("run"), Status: Queued, Agent: req.Agent, AskedBy: rs.sp.Actor(), Model: req.Model, Policy: req.Policy,
		OnDisconnect: req.OnDisconnect, Parent: req.Parent, ResumedFrom: req.ResumedFrom, Request: req.blocks(),
		Options: req.Options, Timeout: int64((req.Timeout + time.Second - 1) / time.Second),
		Created: tx.Now(), own: internals{Reserved: holder != ""},
	}
	if err := thread.CheckBlocks(r.Request); err != nil {
		return s, err
	}
	if r.Parent != "" {
		var err error
		if threadID, err = r.adopt(tx, threadID); err != nil {
			return s, err
		}
	}
	t, err := thread.Load(tx, threadID)
	if err != nil {
		return s, err
	}
	r.Thread, r.own.Slot = t.ID, slotKey(t)
	if r.Agent == "" {
		r.Agent = t.Assistant
	}
	if err := thole.AgentName.CheckOptional(r.Agent); err != nil {
		return s, err
	}
	if err := r.apart(tx, t); err != nil {
		return s, err
	}
	if err := r.resume(tx, rs.sp); err != nil {
		return s, err
	}
	if holder != "" {
		if s.Fence, err = tx.Acquire(key(r.ID), holder, rs.opts.Lease); err != nil {
			return s, err
		}
	}
	tx.Put(thread.Key(t.ID)+"/run/"+r.ID, struct{}{}, nil)
	if _, err := tx.Get(key(r.ID)); err != nil { // so that it is found again in this Tx
		return s, err
	}
	if err := r.grow(tx); err != nil {
		return s, err
	}
	if s.Rest, err = r.line(tx, t); err != nil {
		return s, err
	}
	if s.Run, err = load(tx, r.ID); err != nil {
		return s, err
	}
	if r = s.Run; r.own.Ready && holder != "" {
		return s, r.begin(tx)
	}
	r.emit(tx, "run.queued", Event{Agent: r.Agent, Model: r.Model, Parent: r.Parent, ResumedFrom: r.ResumedFrom})
	return s, nil
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
	p.own.Children++
	p.put(tx)
	tx.Put(key(p.ID)+"/child/"+r.ID, struct{}{}, nil)
	if threadID != "" {
		return threadID, nil
	}
	pt, err := thread.Load(tx, p.Thread)
	if err != nil {
		return "", err
	}
	o := thread.Below(pt)
	o.Assistant = r.Agent
	t, err := thread.Create(tx, o)
	if err != nil {
		return "", err
	}
	return t.ID, nil
}

// apart refuses a child that would wait in line behind its own parent, and one
// outside the threads below its parent's, which would outlive that thread.
func (r *Run) apart(tx *thole.Tx, t *thread.Thread) error {
	if r.Parent == "" {
		return nil
	}
	p, err := load(tx, r.Parent)
	switch {
	case err != nil:
		return err
	case p.own.Slot == r.own.Slot || p.Thread == r.Thread:
		return fmt.Errorf("%w: a sub-agent's run works in a thread of its own", thole.ErrInvalid)
	case t.Parent != p.Thread:
		return fmt.Errorf("%w: a sub-agent's run works in a thread that has the thread of its parent run as parent", thole.ErrInvalid)
	}
	return nil
}

// resume checks the run that r goes on from, notes on it that r does, so that no
// other run can, and takes over what it asked for and never began, and its
// signals.
func (r *Run) resume(tx *thole.Tx, sp *thole.Space) error {
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
	case old.ResumedBy != "":
		return resumedAlready(tx, old)
	}
	old.ResumedBy = r.ID
	if old.Turn == "" && len(r.Request) == 0 {
		r.Request = old.Request
	}
	return r.inherit(tx, sp, old)
}

// maxResumed bounds how many runs an error looks at for the last that resumed
// another.
const maxResumed = 100

// resumedAlready is the error for a run that another one went on from: what that
// one did would happen again. It names the run to resume instead.
func resumedAlready(tx *thole.Tx, old *Run) error {
	last := old
	for range maxResumed {
		next, err := load(tx, last.ResumedBy)
		if errors.Is(err, thole.ErrNotFound) {
			return fmt.Errorf("%w: run %s was resumed by run %s, which is gone", thole.ErrConflict, old.ID, last.ResumedBy)
		}
		if err != nil {
			return err
		}
		if last = next; last.ResumedBy == "" {
			break
		}
	}
	advice := ""
	if last.Ended() && last.Status != Succeeded {
		advice = "; resume that one"
	}
	return fmt.Errorf("%w: run %s was resumed by run %s, which is %s%s", thole.ErrConflict, old.ID, last.ID, last.Status, advice)
}

// line puts r in line as its policy says, and lets the first in if it may. It
// returns the runs that are still to be cancelled. In a slot of the owner's threads
// a run that somebody else asked for ends none in another thread: that may be one
// which only the owner may know. It waits, behind the owner's. One that the owner
// asked for goes before one of others that no worker has yet.
func (r *Run) line(tx *thole.Tx, t *thread.Thread) (rest []string, _ error) {
	active, rest, err := occupant(tx, r.own.Slot)
	if err != nil {
		return nil, err
	}
	s, err := loadSlot(tx, r.own.Slot)
	if err != nil {
		return nil, err
	}
	ends := r.Policy == Interrupt || r.Policy == Rollback
	own, queue, limit := ofOwner(t, r.AskedBy), &s.Queue, maxQueue
	if !own {
		queue, limit = &s.Others, maxOthers
	}
	if own && !ends && active != nil && active.claimable() && !ofOwner(t, active.AskedBy) {
		if err := s.yield(tx, active); err != nil {
			return nil, err
		}
		active = nil
	}
	switch {
	case active != nil && r.Policy == Reject:
		return nil, fmt.Errorf("%w: run %s is active", thole.ErrConflict, active.ID)
	case len(*queue) >= limit:
		return nil, fmt.Errorf("%w: %d runs are waiting already", thole.ErrTooLarge, len(*queue))
	case ends && active != nil && (own || active.Thread == r.Thread || active.AskedBy == r.AskedBy):
		// In front first: the active one may end here and now, and lets it in.
		*queue = slices.Insert(*queue, 0, r.ID)
		s.put(tx)
		c := canceller{tx: tx, cause: BySuperseded}
		err := c.start(active, r.Policy == Rollback)
		return append(rest, c.rest...), err
	}
	*queue = append(*queue, r.ID)
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
		if active.own.Children > 0 {
			orphaned = append(orphaned, active.ID)
			noteCancel(tx, active.ID, BySuperseded)
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
// thread, for the same agent, with the options it had and the signals that it
// had not taken, or took and did nothing after in its thread: no text, no block, no
// tool, no sub-agent; its end does not count. The worker finds the interrupted turn in the history. A run is
// resumed once: if the run that resumed it did not succeed, resume that one.
// Errors: ErrNotFound; ErrConflict when the run has not ended, did succeed or was
// resumed before, or another one is active.
func (rs *Runs) Resume(ctx context.Context, id string) (*Run, error) {
	ctx = thole.Call(ctx, "run.resume", id)
	ctx = thole.Reread(ctx, rs.rereadStarted)
	s, r, err := thole.Do(ctx, rs.sp, func(ctx context.Context) (started, thole.Receipt, error) {
		old, err := rs.Get(ctx, id)
		if err == nil && (!old.Ended() || old.Status == Succeeded) {
			err = fmt.Errorf("%w: it is %s", thole.ErrConflict, old.Status)
		}
		if err != nil {
			return started{}, thole.Receipt{}, err
		}
		return rs.commitStart(ctx, old.Thread, Request{
			Agent: old.Agent, Model: old.Model, Policy: Reject, OnDisconnect: old.OnDisconnect,
			ResumedFrom: id, Timeout: seconds(old.Timeout), Options: old.Options,
		})
	})
	if err != nil {
		return nil, fmt.Errorf("resume run %s: %w", id, err)
	}
	return rs.started(ctx, s, r)
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

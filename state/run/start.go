package run

import (
	"cmp"
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

// Request asks for a run. The zero value answers the thread's last message. With a
// ResumedFrom, an Agent, Model, OnDisconnect, Timeout or Options that is zero is that of
// the run that this one continues, so that run's Timeout cannot be lifted, only changed;
// and if that run named no agent, the thread's assistant is not the default.
type Request struct {
	Prompt       string          // a text block in front of Blocks
	Blocks       []thread.Block  // of the user's message; with neither Blocks nor Prompt, the run answers the last message
	Agent        string          // the agent that does it; default: the thread's assistant
	Model        string          // empty: the agent chooses
	Policy       string          // what to do when another run is active; default enqueue
	OnDisconnect string          // continue (default) or cancel; the server of the connection acts on it
	Parent       string          // the run whose sub-agent this is
	ResumedFrom  string          // the ended run of this thread that this one continues
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

// Start creates a run in the thread and returns it, queued. A worker can claim it
// when no other run is active; req.Policy says what happens to an active one. The
// prompt enters the history when the run starts. With a Parent, the run works in a
// child of the parent's thread; if threadID is "", Start creates that child, private.
// With a ResumedFrom, the run waits in front of those that resume no run; if the old run
// was rolled back, its message is asked again. A run that finds no message to answer when
// its turn comes fails.
//
// A repeat under an idempotency key returns the first call's run. Errors:
// ErrNotFound for a missing thread or run; ErrConflict under policy reject if a run is
// active, without a prompt if the thread has neither a message to answer nor, under
// policy enqueue, another run that is active or waits, for a parent that has ended, or
// for a ResumedFrom that has not ended or was resumed before; ErrCancelled for a
// cancelled parent; ErrTooLarge when the queue is full; ErrInvalid. It is one commit.
func (rs *Runs) Start(ctx context.Context, threadID string, req Request) (*Run, error) {
	ctx = thole.Call(ctx, "run.start", threadID)
	ctx = thole.Reread(ctx, rs.rereadStarted)
	s, r, err := rs.commitStart(ctx, threadID, req)
	if err != nil {
		return nil, fmt.Errorf("start run in %s: %w", threadID, err)
	}
	return rs.started(ctx, s, r)
}

// started is the answer of the commit that creates a run.
type started struct {
	Run   *Run        `json:"run"`
	Rest  []string    `json:"rest,omitempty"` // superseded runs that are still to be cancelled
	Fence thole.Fence `json:"fence,omitzero"` // of a run reserved for its starter
}

func (rs *Runs) commitStart(ctx context.Context, threadID string, req Request) (started, thole.Receipt, error) {
	return thole.Update(ctx, rs.sp, func(tx *thole.Tx) (started, error) { return rs.start(tx, threadID, req, "") })
}

// started finishes the cancel of the runs that s.Run supersedes and returns s.Run as
// its commit left it. On a repeat, that is the commit of the earlier call.
func (rs *Runs) started(ctx context.Context, s started, r thole.Receipt) (*Run, error) {
	if err := cancelTree(thole.WithoutIdempotencyKey(ctx), rs.sp, s.Rest, BySuperseded); err != nil {
		return nil, fmt.Errorf("start run %s: cancel what it supersedes: %w", s.Run.ID, err)
	}
	s.Run.Version = r.Last
	return s.Run, nil
}

// start creates a run within tx. If holder is not "", the run is reserved for it
// under a lease and begins at once if no other run is active. The result's Rest
// names the superseded runs whose cancel did not fit into the commit.
func (rs *Runs) start(tx *thole.Tx, threadID string, req Request, holder string) (s started, _ error) {
	if err := req.carryOver(tx, rs.sp); err != nil {
		return s, err
	}
	if err := req.check(); err != nil {
		return s, err
	}
	r := &Run{
		ID: thole.NewID("run"), Status: Queued, Agent: req.Agent, AskedBy: rs.sp.Actor(), Model: req.Model, Policy: req.Policy,
		OnDisconnect: req.OnDisconnect, Parent: req.Parent, ResumedFrom: req.ResumedFrom, Request: req.blocks(),
		Options: req.Options, Timeout: int64((req.Timeout + time.Second - 1) / time.Second),
		Created: tx.Now(), own: internals{Reserved: holder != ""},
	}
	if err := checkMessage(r.Request); err != nil {
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
	r.Thread, r.own.Slot = t.ID, slotKey(&t.Head)
	if r.Agent == "" && r.ResumedFrom == "" {
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
	if len(r.Request) == 0 && !r.own.Resumes {
		if ok, err := r.mayAnswer(tx, t); err != nil || !ok {
			return s, cmp.Or(err, noMessage(thole.ErrConflict, t.ID))
		}
	}
	if holder != "" {
		if s.Fence, err = tx.Acquire(key(r.ID), holder, rs.opts.Lease); err != nil {
			return s, err
		}
	}
	tx.Put(thread.Key(t.ID)+"/run/"+r.ID, struct{}{}, nil)
	if _, err := tx.Get(key(r.ID)); err != nil { // so that later loads in this Tx find it
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
	r.emit(tx, "run.queued", r.queuedData())
	return s, nil
}

// adopt makes r a child of its parent run and returns the id of r's thread, which it
// creates if threadID is "".
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
	// The write makes a concurrent cancel of the parent see this child.
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

// apart refuses, with ErrInvalid, a child run that would queue behind its own parent,
// or whose thread is not a child of the parent's thread and would outlive it.
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

// mayAnswer reports whether r, which has no message, may find one in the thread t when its
// turn comes: there is one that r does not remove, or another run of t, which r does not go
// ahead of, may bring one. Whether it did, begin finds out.
func (r *Run) mayAnswer(tx *thole.Tx, t *thread.Thread) (bool, error) {
	if r.Policy == Rollback && t.TurnStatus == thread.Streaming && t.Turns == 1 {
		return false, nil
	}
	if !empty(t) || r.Policy == Interrupt || r.Policy == Rollback {
		return !empty(t), nil
	}
	s, err := loadSlot(tx, r.own.Slot)
	if err != nil {
		return false, err
	}
	before := s.waiting()
	if ofOwner(t, r.AskedBy) {
		before = s.Queue
	}
	switch active, err := load(tx, s.Active); {
	case isNone(err) || errors.Is(err, thole.ErrCorrupt):
	case err != nil:
		return false, err
	case !ofOwner(t, r.AskedBy) || !active.claimable() || ofOwner(t, active.AskedBy): // else it yields to r
		before = append(before, s.Active)
	}
	runs := thread.Key(t.ID) + "/run/"
	for q := (thole.ListQuery{Prefix: runs}); ; {
		recs, err := tx.List(q)
		if err != nil {
			return false, err
		}
		for _, rec := range recs {
			if slices.Contains(before, rec.Key[len(runs):]) {
				return true, nil
			}
		}
		if len(recs) < thole.MaxPage {
			return false, nil
		}
		q.After = recs[len(recs)-1].Key
	}
}

// empty reports whether a thread has no turn, so that a run has nothing to answer. Whether
// a run without a message has something to say after an answer is for its agent to decide.
func empty(t *thread.Thread) bool { return t.Turns == 0 && t.LastTurn == "" }

func noMessage(sentinel error, thread string) error {
	return fmt.Errorf("%w: thread %s has no message to answer; give a prompt or blocks", sentinel, thread)
}

// checkMessage checks the blocks of a request. A text block in it has text.
func checkMessage(blocks []thread.Block) error {
	for i, b := range blocks {
		if b.Type == thread.Text && b.Content == "" {
			return fmt.Errorf("block %d: %w: it has no text", i, thole.ErrInvalid)
		}
	}
	return thread.CheckBlocks(blocks)
}

// line queues r as its policy says and makes the first waiting run active if no run
// is. It returns the runs that are still to be cancelled.
//
// In the slot of an owner's threads, a run that somebody else asked for waits behind
// the owner's. It does not end a run in another thread that a third actor asked for,
// because only the owner may know of that thread. A run that the owner asked for goes
// ahead of another's that no worker has claimed.
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
	own, queue, limit := ofOwner(t, r.AskedBy), s.queue(), maxQueue
	if !own {
		queue, limit = s.others(), maxOthers
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
	case len(*queue.ids) >= limit:
		return nil, fmt.Errorf("%w: %d runs are waiting already", thole.ErrTooLarge, len(*queue.ids))
	case ends && active != nil && (own || active.Thread == r.Thread || active.AskedBy == r.AskedBy):
		// Queue r first: the active run may end at once and promote it.
		queue.insert(0, r.ID, true)
		s.put(tx)
		c := canceller{tx: tx, cause: BySuperseded}
		err := c.start(active, r.Policy == Rollback)
		return append(rest, c.rest...), err
	}
	if r.ResumedFrom != "" {
		queue.insert(*queue.ahead, r.ID, true)
	} else {
		queue.insert(len(*queue.ids), r.ID, false)
	}
	return rest, s.promote(tx)
}

// maxDead bounds how many crashed runs one commit ends.
const maxDead = 8

// occupant returns the run that is active in the slot, nil if none is. It first ends
// runs whose worker's lease has run out, and returns those of them that have
// sub-agents' runs, which the caller cancels.
func occupant(tx *thole.Tx, key string) (active *Run, orphaned []string, _ error) {
	for range maxDead {
		s, err := loadSlot(tx, key)
		if err == nil && s.Active == "" && len(s.waiting()) > 0 { // they could not be read; perhaps one can now
			err = s.promote(tx)
		}
		if err != nil || s.Active == "" {
			return nil, orphaned, err
		}
		active, err = load(tx, s.Active)
		if isNone(err) || err == nil && active.Ended() {
			s.leave(s.Active) // should not happen, but must not block the slot for ever
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
	// Return the active run without a check: the next call ends it if it is dead.
	s, err := loadSlot(tx, key)
	if err != nil || s.Active == "" {
		return nil, orphaned, err
	}
	active, err = load(tx, s.Active)
	return active, orphaned, err
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

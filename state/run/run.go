// Package run keeps the executions of agents in threads: which worker works on which
// run, under which lease, and how the run ended.
//
// A run is the record run/<id>; its events go to its thread's stream. It is queued
// until a worker claims it, running or waiting while the worker writes the run's one
// turn, and then ends exactly once. In each thread (or for each owner, see
// thread.CreateOptions.RunScope) at most one run is active; the others wait in a
// durable queue. A worker holds the run's lease and writes under its fence; when the
// lease runs out, the run has crashed.
//
// The journal records who did what and why. The commit that queues a run (run.queued)
// has the asker as its actor and the request as its cause. The commit that starts the
// run also adds the user's message to the history; its actor is the asker, too, and
// its cause is the run, or the request if that starts the run itself (see [Runs.Do]).
// Every later commit of the run has the agent as its actor and the run as its cause.
//
// A sub-agent's run names its Parent and works in a private thread of its own, so the
// parent's history shows only the tool call that started it. Cancelling the parent
// cancels the sub-agent's run, too.
package run

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/thread"
)

// Status of a run. The last five are final.
const (
	Queued    = "queued"
	Running   = "running"
	Waiting   = "waiting" // for a signal
	Succeeded = "succeeded"
	Failed    = "failed"
	Cancelled = "cancelled"
	Crashed   = "crashed" // its worker's lease ran out
	TimedOut  = "timed_out"
)

// Causes of a cancel.
const (
	ByUser       = "user"
	ByDisconnect = "disconnect"
	ByCredits    = "credits"
	ByTimeout    = "timeout"
	BySuperseded = "superseded"
	ByShutdown   = "shutdown"
)

// Policies: what a new run does when another is active.
const (
	Enqueue   = "enqueue"   // waits its turn
	Reject    = "reject"    // fails with ErrConflict
	Interrupt = "interrupt" // cancels the active one, begun or not, keeps its output, and is next
	Rollback  = "rollback"  // as Interrupt, and removes the active one's turn from the history
)

// Usage counts tokens.
type Usage = thread.Usage

// Run is one execution of an agent.
type Run struct {
	ID           string           `json:"id,omitempty" given:"always"`
	Thread       string           `json:"thread"`
	Status       string           `json:"status"`
	Agent        string           `json:"agent,omitempty"`    // the agent asked for, then the one that works on it
	AskedBy      string           `json:"asked_by,omitempty"` // the actor that started it
	Model        string           `json:"model,omitempty"`    // the model asked for, then the one chosen
	Policy       string           `json:"policy,omitempty"`
	OnDisconnect string           `json:"on_disconnect,omitempty"`          // continue or cancel
	Parent       string           `json:"parent,omitempty" names:"omitted"` // the run whose sub-agent this is
	ResumedFrom  string           `json:"resumed_from,omitempty"`           // the ended run that this one continues
	ResumedBy    string           `json:"resumed_by,omitempty"`             // the run that continues this one
	Request      []thread.Block   `json:"request,omitempty"`                // until it is in the thread's history
	Options      json.RawMessage  `json:"options,omitempty"`                // for the agent
	Timeout      int64            `json:"timeout,omitempty"`                // seconds from its start; 0: none
	Turn         string           `json:"turn,omitempty"`                   // the turn that it writes
	Cancel       *Cancel          `json:"cancel,omitempty"`                 // set once a cancel is requested
	Error        string           `json:"error,omitempty" names:"masked"`   // why it failed
	WaitingFor   string           `json:"waiting_for,omitempty"`            // the name of a signal: the first of Waits
	Waits        []string         `json:"waits,omitempty"`                  // the names of all signals that it waits for
	Signals      map[string]int   `json:"signals,omitempty"`                // how many arrived and are not taken, by name
	Usage        map[string]Usage `json:"usage,omitempty"`                  // by model
	Created      time.Time        `json:"created_at"`
	Started      time.Time        `json:"started_at,omitzero"`
	Finished     time.Time        `json:"finished_at,omitzero"`
	Updated      time.Time        `json:"updated_at,omitzero" given:"always"`
	Version      thole.Position   `json:"version,omitzero" given:"always"`

	own   internals      // zero in the runs that lists return
	asked []thread.Block // the Request that this Tx moved into the history
}

// Cancel is a request that a run end.
type Cancel struct {
	Cause    string    `json:"cause"`
	Rollback bool      `json:"rollback,omitempty"` // also remove its turn from the history
	Time     time.Time `json:"requested_at"`
}

// Ended reports whether the run's status is final.
func (r *Run) Ended() bool { return Ended(r.Status) }

// Ended reports whether status is final.
func Ended(status string) bool {
	return status != Queued && status != Running && status != Waiting
}

// Total returns the usage of all models together.
func (r *Run) Total() Usage {
	var sum Usage
	for _, u := range r.Usage {
		sum.Add(u)
	}
	return sum
}

// CancelledError reports that a run was cancelled. It is also the cause with which the
// context of the run's function ends. It unwraps to thole.ErrCancelled.
type CancelledError struct {
	Run   string
	Cause string
}

func (e *CancelledError) Error() string {
	return fmt.Sprintf("run %s: cancelled by %s", e.Run, e.Cause)
}

// Unwrap returns thole.ErrCancelled.
func (e *CancelledError) Unwrap() error { return thole.ErrCancelled }

// Options of [In]. The zero value is the default.
type Options struct {
	Lease      time.Duration // how long a lease lasts without renewal; default 30 s
	Heartbeat  time.Duration // how often Do renews the lease; default, and at most, a third of Lease: 10 s
	Flush      time.Duration // how long streamed text may wait for its commit; default 100 ms
	FlushBytes int           // how many bytes of it may wait; default 4 KiB
	Group      *Group        // the group that Do and Claim add runs to, for Drain; nil: none
}

// Runs are the runs of one space. The handle is cheap and immutable.
type Runs struct {
	sp   *thole.Space
	opts Options
}

// In returns the runs of sp, whose store must have been given [Concept]. Writes carry
// sp's actor and cause. Nil opts mean the defaults.
func In(sp *thole.Space, opts *Options) *Runs {
	rs := &Runs{sp: sp.For(Name)}
	if opts != nil {
		rs.opts = *opts
	}
	setDefault(&rs.opts.Lease, defaultLease)
	setDefault(&rs.opts.Heartbeat, rs.opts.Lease/heartbeatsPerLease)
	rs.opts.Heartbeat = min(rs.opts.Heartbeat, rs.opts.Lease/heartbeatsPerLease)
	setDefault(&rs.opts.Flush, 100*time.Millisecond)
	setDefault(&rs.opts.FlushBytes, 4<<10)
	return rs
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func key(id string) string { return "run/" + id }

// ready is the value of the record under readyKey.
type ready struct {
	AskedBy string `json:"asked_by,omitempty"`
}

func (r *Run) stream() string { return thread.Key(r.Thread) }

// readyKey returns the key of the ready record, where workers of the run's agent find
// the run.
func (r *Run) readyKey() string { return readyPrefix(r.Agent) + r.ID }

func readyPrefix(agent string) string {
	if agent == "" {
		return "ready/%/" // no escaped name is "%"
	}
	const room = thole.MaxNameBytes - len("ready//run_") - 32
	return "ready/" + thole.KeyPart(agent, room) + "/"
}

// The kinds of names in a run, besides the agent's.
var (
	modelName  = thole.NameKind{What: "model"}
	holderName = thole.NameKind{What: "holder"}
	signalName = thole.NameKind{What: "signal", Keys: []string{signalsOf(thole.NewID("run")) + "*/" + aPosition}}
)

// actorOf returns the actor that an agent's commits name.
func actorOf(agent string) string {
	if len("agent:")+len(agent) > thole.MaxNameBytes { // in a record of an earlier version
		agent = thole.KeyPart(agent, 0)
	}
	return "agent:" + agent
}

// put writes the run, and its internals if they have changed.
func (r *Run) put(tx *thole.Tx) {
	stored := *r
	stored.ID, stored.Updated, stored.Version = "", time.Time{}, thole.Position{}
	tx.Put(key(r.ID), &stored, &thole.WriteOptions{Schema: thole.Schema})
	r.own.put(tx, r.ID)
}

// maxRecord leaves room in a run's record for what its later changes and its end add.
const maxRecord = thole.MaxValueBytes - 64<<10

// grow is put for changes of a size that the caller chooses. It returns ErrTooLarge
// beyond maxRecord: without that room a run could neither begin nor end.
func (r *Run) grow(tx *thole.Tx) error {
	r.put(tx)
	rec, err := tx.Get(key(r.ID))
	if err == nil && len(rec.Value) > maxRecord {
		err = fmt.Errorf("%w: the run has %d bytes, the limit is %d; keep larger content as a blob", thole.ErrTooLarge, len(rec.Value), maxRecord)
	}
	return err
}

func decode(id string, rec thole.Record) (*Run, error) {
	if rec.Value == nil {
		return nil, absent(id)
	}
	var stored struct {
		Run
		Internal *internals `json:"internal"` // of an earlier schema
	}
	if err := rec.As(&stored); err != nil {
		return nil, err
	}
	r := &stored.Run
	if stored.Internal != nil {
		r.own = *stored.Internal
	}
	r.ID, r.Updated, r.Version = id, rec.Updated, rec.Version
	r.Timeout = min(r.Timeout, int64(thole.MaxTTL/time.Second)) // one of an earlier version may be longer than a time.Duration
	return r, nil
}

func load(tx *thole.Tx, id string) (*Run, error) {
	if err := thole.CheckID("run", id); err != nil {
		return nil, err
	}
	rec, err := tx.Get(key(id))
	if err != nil {
		return nil, err
	}
	own, err := tx.Get(internalKey(id))
	if err != nil {
		return nil, err
	}
	return whole(id, rec, own)
}

// Get returns the run. If a sweep has not done so yet, Get first ends a run whose
// lease has run out as crashed, and a run queued in a destroyed thread as cancelled. If
// the run waits although no run is active, because records were unreadable and have been
// repaired, Get makes the first waiting run active.
// Errors: ErrNotFound; ErrInvalid for a bad id.
func (rs *Runs) Get(ctx context.Context, id string) (*Run, error) {
	r, err := rs.Peek(ctx, id)
	if err != nil || r.Ended() {
		return r, err
	}
	var goesOn bool
	if r.Status == Queued && !r.own.Reserved {
		goesOn, err = rs.waits(ctx, r)
	} else {
		goesOn, err = rs.sp.Alive(ctx, key(id))
	}
	if err != nil || goesOn {
		return r, err
	}
	if err := rs.reap(ctx, id); err != nil {
		return nil, err
	}
	return rs.Peek(ctx, id)
}

// waits reports whether a queued run need only wait: its thread exists, and a run is
// active in its slot.
func (rs *Runs) waits(ctx context.Context, r *Run) (bool, error) {
	rec, err := rs.sp.Get(ctx, thread.Key(r.Thread))
	if err != nil || !rec.Exists() || r.own.Ready || r.own.Slot == "" {
		return rec.Exists(), err
	}
	var s slot
	if rec, err = rs.sp.Get(ctx, r.own.Slot); err == nil && rec.Exists() && rec.As(&s) != nil {
		return true, nil // until the slot is repaired, which doctor asks for
	}
	return s.Active != "" || len(s.waiting()) == 0, err
}

// Of is Get for a run of the thread. For a run of another thread it returns the same
// ErrNotFound, word for word, as for a run that does not exist.
func (rs *Runs) Of(ctx context.Context, threadID, id string) (*Run, error) {
	r, err := rs.Peek(ctx, id)
	if err == nil && r.Thread != threadID {
		err = absent(id)
	}
	if err != nil {
		return nil, err
	}
	return rs.Get(ctx, id)
}

func absent(id string) error { return fmt.Errorf("run %s: %w", id, thole.ErrNotFound) }

// Peek returns the run as stored and changes nothing. Errors: those of Get.
func (rs *Runs) Peek(ctx context.Context, id string) (*Run, error) {
	if err := thole.CheckID("run", id); err != nil {
		return nil, err
	}
	recs, err := rs.sp.GetAll(ctx, key(id), internalKey(id))
	if err != nil {
		return nil, err
	}
	return whole(id, recs[0], recs[1])
}

// ListOptions of [Runs.List].
type ListOptions struct {
	Limit  int    // at most this many, 1…MaxPage; 0: MaxPage
	Cursor string // the Next of an earlier page
}

// List returns a page of the thread's runs in the order of their ids, which is the
// order of their creation. It leaves out those that cannot be read: see
// [thole.Space.LeavesOut].
func (rs *Runs) List(ctx context.Context, threadID string, opts *ListOptions) (thole.PageOf[*Run], error) {
	var o ListOptions
	if opts != nil {
		o = *opts
	}
	page := thole.PageOf[*Run]{Items: []*Run{}}
	if err := thole.CheckID("thrd", threadID); err != nil {
		return page, err
	}
	prefix := thread.Key(threadID) + "/run/"
	q := thole.ListQuery{Prefix: prefix, Limit: journal.PageLimit(o.Limit)}
	if o.Cursor != "" {
		if err := thole.CheckID("run", o.Cursor); err != nil {
			return page, err
		}
		q.After = prefix + o.Cursor
	}
	recs, err := rs.sp.List(ctx, q)
	if err != nil {
		return page, fmt.Errorf("list runs of %s: %w", threadID, err)
	}
	ids := make([]string, len(recs))
	for i, rec := range recs {
		ids[i] = rec.Key[len(prefix):]
	}
	if page.Items, err = rs.all(ctx, ids); err != nil {
		return page, err
	}
	if len(recs) == q.Limit {
		page.Next = ids[len(ids)-1]
	}
	return page, nil
}

// all returns the runs with the given ids, in that order, without those that do not exist
// or cannot be read.
func (rs *Runs) all(ctx context.Context, ids []string) ([]*Run, error) {
	runs := make([]*Run, 0, len(ids))
	if len(ids) == 0 {
		return runs, nil
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = key(id)
	}
	recs, err := rs.sp.GetAll(ctx, keys...)
	if err != nil {
		return nil, err
	}
	for i, rec := range recs {
		switch r, err := decode(ids[i], rec); {
		case err == nil:
			runs = append(runs, r)
		case !isNone(err) && !rs.sp.LeavesOut(rec, err):
			return nil, err
		}
	}
	return runs, nil
}

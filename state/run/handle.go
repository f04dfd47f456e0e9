package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// Handle is a worker's hold on a run that it works on. All it writes is in the
// run's name, under its lease: once another has the run, or it has ended, that
// is ErrFenced. A Handle is safe for concurrent use; its commits go one at a
// time, in the order of the calls.
type Handle struct {
	rs      *Runs
	sp      *thole.Space // under the fence
	id      string
	thread  string
	turn    string
	fence   thole.Fence
	request []thread.Block
	timeout time.Duration // 0: none
	place   *place        // in the group of who claimed it; nil: attached
	text    text
	commit  chan struct{} // capacity 1: held by the call that commits
	waits   waits
	doubts  doubts       // signals of which it is not known whether they were taken
	renewed atomic.Int64 // when the lease was last known to be whole, from epoch

	claimed  *Run // as it was when this handle claimed it; nil: attached, or begun by Do
	attached bool // there may be other handles on the run
	waited   bool // the run was waiting when this handle was attached
}

// epoch is what a Handle counts time from, by a clock that nobody sets.
var epoch = time.Now()

func (rs *Runs) handle(r *Run, f thole.Fence) *Handle {
	sp := rs.sp.Because(r.ID).Under(f)
	if r.Agent != "" {
		sp = sp.As(actorOf(r.Agent))
	}
	h := &Handle{rs: rs, sp: sp, id: r.ID, thread: r.Thread, turn: r.Turn, fence: f,
		request: r.asked, timeout: seconds(r.Timeout), commit: make(chan struct{}, 1)}
	h.text.armed = make(chan struct{}, 1)
	h.renewed.Store(int64(time.Since(epoch)))
	return h
}

// Attach returns a handle on a run for the worker that holds fence, such as one
// that claimed it in an earlier request. Errors: ErrNotFound; ErrFenced when the
// fence is not that of the run's lease, unless what is to come repeats, under
// ctx's idempotency key, what was done while it was.
func (rs *Runs) Attach(ctx context.Context, id string, fence thole.Fence) (*Handle, error) {
	r, err := rs.Peek(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	owner, err := rs.sp.Get(ctx, key(id)+"/owner")
	if err != nil {
		return nil, err
	}
	h := rs.handle(r, fence)
	h.attached, h.waited = true, r.Status == Waiting
	if fence.Key != key(id)+"/owner" {
		return nil, fmt.Errorf("attach to run %s: %w", id, thole.ErrFenced)
	}
	if owner.Version != fence.Token {
		_, repeats, err := h.sp.Earlier(ctx)
		if err == nil && !repeats {
			err = thole.ErrFenced
		}
		if err != nil {
			return nil, fmt.Errorf("attach to run %s: %w", id, err)
		}
	}
	return h, nil
}

// ID returns the run's id.
func (h *Handle) ID() string { return h.id }

// Thread returns the id of the run's thread.
func (h *Handle) Thread() string { return h.thread }

// Turn returns the id of the turn that the run makes.
func (h *Handle) Turn() string { return h.turn }

// Fence returns the proof of the run's lease, for a worker to come back with.
func (h *Handle) Fence() thole.Fence { return h.fence }

// Claimed returns the run as it was when [Runs.Claim] returned the handle.
func (h *Handle) Claimed() *Run { return h.claimed }

// Request returns what the user asked for, unless the handle was attached.
func (h *Handle) Request() []thread.Block { return slices.Clone(h.request) }

// Space returns the run's space, acting as the run: under its fence, as its
// agent, because of it.
func (h *Handle) Space() *thole.Space { return h.sp }

// Get returns the run. Unlike [Runs.Get] it does not end one whose lease has run
// out: a worker that is late, and that nobody has replaced, may go on.
func (h *Handle) Get(ctx context.Context) (*Run, error) { return h.rs.Peek(ctx, h.id) }

// Update is Space.Update under the run's fence, in one commit with all text so
// far: for what belongs together, such as a decision and the start of its tool
// (thread.StartTool with [Handle.Turn]; ask [Handle.Go] first). Text that comes
// afterwards is another block. fn must not call the handle's methods but
// [Handle.Go].
func (h *Handle) Update(ctx context.Context, fn func(tx *thole.Tx) error) (thole.Result, error) {
	_, r, err := write(ctx, h, cuts, func(tx *thole.Tx) (none, error) { return none{}, fn(tx) })
	return thole.Result{First: r.First, Last: r.Last, Repeated: r.Repeated}, err
}

// none is the answer of a commit that has nothing to say.
type none = struct{}

// Go reports, within a Tx of [Handle.Update], whether the run may still start
// something: nil; *CancelledError when it is to end; ErrConflict when it has
// ended. A cancel that comes before the commit makes the Tx run again.
func (h *Handle) Go(tx *thole.Tx) error { return Go(tx, h.id) }

// Go is [Handle.Go] for any run of the space, and in any Tx. Other errors:
// ErrNotFound; ErrInvalid for a bad id.
func Go(tx *thole.Tx, id string) error {
	_, err := unless(tx, id)
	return err
}

// live loads the run and reports one that has ended as ErrConflict.
func live(tx *thole.Tx, id string) (*Run, error) {
	r, err := load(tx, id)
	if err == nil && r.Ended() {
		err = fmt.Errorf("run %s: %w: it is %s", id, thole.ErrConflict, r.Status)
	}
	return r, err
}

func (h *Handle) live(tx *thole.Tx) (*Run, error) { return live(tx, h.id) }

// unless loads the run and reports one that is to end as *CancelledError.
func unless(tx *thole.Tx, id string) (*Run, error) {
	r, err := live(tx, id)
	if err == nil && r.Cancel != nil {
		err = &CancelledError{Run: id, Cause: r.Cancel.Cause}
	}
	return r, err
}

func (h *Handle) unless(tx *thole.Tx) (*Run, error) { return unless(tx, h.id) }

// Heartbeat renews the run's lease, unless its thread is gone: then the lease runs
// out, and the run ends with it. It may be repeated, so it ignores an idempotency
// key. Errors: ErrFenced; a *CancelledError that is also ErrNotFound when the
// thread is gone. [Handle.Do] does it by itself.
func (h *Handle) Heartbeat(ctx context.Context) error {
	head, err := h.rs.sp.Get(ctx, thread.Key(h.thread))
	if err != nil {
		return err
	}
	if !head.Exists() {
		return h.goneError()
	}
	return h.renew(ctx)
}

func (h *Handle) renew(ctx context.Context) error {
	at := int64(time.Since(epoch))
	err := h.sp.Renew(ctx, h.fence, h.rs.opts.Lease)
	if err == nil {
		h.renewed.Store(at)
	}
	return err
}

// LeaseEnds returns when the lease ends if this worker does not renew it any more:
// for what must end by then even if this process does not answer, such as a command.
func (h *Handle) LeaseEnds() time.Time {
	return epoch.Add(time.Duration(h.renewed.Load()) + h.rs.opts.Lease)
}

// Block adds a block to the response, or replaces the one with its id, and
// returns its id.
func (h *Handle) Block(ctx context.Context, b thread.Block) (string, error) {
	ctx = thole.Call(ctx, "run.block", h.id)
	ctx = thole.Reread(ctx, rereadBlock)
	id, _, err := write(ctx, h, cuts, func(tx *thole.Tx) (string, error) {
		return thread.PutBlock(tx, h.thread, h.turn, b)
	})
	return id, err
}

// Append commits a chunk of text at its offset: see thread.AppendText. It is
// for workers that count for themselves; the others use [Handle.Text].
func (h *Handle) Append(ctx context.Context, d thread.Delta) error {
	ctx = thole.Call(ctx, "run.append", h.id)
	d.Turn = h.turn
	_, err := h.Update(ctx, func(tx *thole.Tx) error { return thread.AppendText(tx, h.thread, d) })
	return err
}

// StartTool records, before the tool acts, that it is called, and returns the
// id of the block that its result goes to. operationID, if any, pairs start and
// end for whoever watches. Errors: *CancelledError when the run is to end, so
// that nothing starts any more.
func (h *Handle) StartTool(ctx context.Context, name string, input json.RawMessage, operationID string) (string, error) {
	ctx = thole.Call(ctx, "run.start_tool", h.id, name)
	ctx = thole.Reread(ctx, rereadBlock)
	tool := thread.Tool{Name: name, Input: input, OperationID: operationID}
	block, _, err := write(ctx, h, cuts, func(tx *thole.Tx) (string, error) {
		if _, err := h.unless(tx); err != nil {
			return "", err
		}
		return thread.StartTool(tx, h.thread, h.turn, "", tool)
	})
	if err != nil {
		return "", fmt.Errorf("start tool %s: %w", name, err)
	}
	return block, nil
}

// FinishTool records how a tool call ended, once. A run that is to end may
// still do so: what happened, happened.
func (h *Handle) FinishTool(ctx context.Context, block string, res thread.ToolResult) error {
	ctx = thole.Call(ctx, "run.finish_tool", h.id, block)
	_, _, err := write(ctx, h, goesOn, func(tx *thole.Tx) (none, error) {
		return none{}, thread.FinishTool(tx, h.thread, h.turn, block, res)
	})
	return err
}

// maxModels bounds the models of a run's usage, which is in its record.
const maxModels = 64

// addUsage adds to the run's usage, by model.
func (r *Run) addUsage(usage map[string]Usage) error {
	most := max(maxModels, len(r.Usage)) // one of an earlier version may have more
	for model, u := range usage {
		if err := modelName.CheckOptional(model); err != nil {
			return err
		}
		if min(u.InputTokens, u.OutputTokens, u.TotalTokens) < 0 {
			return fmt.Errorf("%w: the usage of model %.80q is negative", thole.ErrInvalid, model)
		}
		if r.Usage == nil {
			r.Usage = make(map[string]Usage)
		}
		sum := r.Usage[model]
		sum.Add(u)
		if r.Usage[model] = sum; len(r.Usage) > most {
			return fmt.Errorf("%w: the usage is of more than %d models", thole.ErrTooLarge, most)
		}
	}
	return nil
}

// AddUsage adds what a call to model cost to the run's usage, even if its thread is
// gone. Errors: ErrInvalid for a negative number, ErrTooLarge for the 65th model.
func (h *Handle) AddUsage(ctx context.Context, model string, u Usage) error {
	ctx = thole.Call(ctx, "run.add_usage", h.id, model)
	_, err := h.sp.Update(ctx, func(tx *thole.Tx) error {
		r, err := h.live(tx)
		if err != nil {
			return err
		}
		if err := r.addUsage(map[string]Usage{model: u}); err != nil {
			return err
		}
		r.put(tx)
		return nil
	})
	return err
}

// SetModel records which model was chosen for the run and emits run.updated.
func (h *Handle) SetModel(ctx context.Context, model string) error {
	ctx = thole.Call(ctx, "run.set_model", h.id)
	if err := modelName.CheckOptional(model); err != nil {
		return err
	}
	_, _, err := write(ctx, h, goesOn, func(tx *thole.Tx) (none, error) {
		r, err := h.live(tx)
		if err != nil {
			return none{}, err
		}
		r.Model = model
		r.emit(tx, "run.updated", Event{Model: model})
		return none{}, r.grow(tx)
	})
	return err
}

// maxReason bounds why a run failed, in bytes.
const maxReason = 4 << 10

// brief cuts a reason to what a run keeps of it.
func brief(reason string) string {
	if len(reason) > maxReason {
		reason = reason[:maxReason-len("…")] + "…"
	}
	return strings.ToValidUTF8(reason, "")
}

// Finish ends the run with status succeeded or failed, for the reason given; a
// run that is to be cancelled, or whose thread is gone, becomes cancelled (or
// timed_out) instead. Text
// that was streamed is kept. It returns the run as it is then. Errors:
// ErrConflict when it had ended before, which changes nothing; ErrFenced.
// [Handle.Do] does it by itself.
func (h *Handle) Finish(ctx context.Context, status, reason string) (*Run, error) {
	return h.FinishWith(ctx, status, reason, nil)
}

// FinishWith is Finish that adds usage, by model, in the same commit. Errors: those
// of Finish and AddUsage, after which the run goes on.
func (h *Handle) FinishWith(ctx context.Context, status, reason string, usage map[string]Usage) (*Run, error) {
	ctx = thole.Call(ctx, "run.finish", h.id)
	ctx = thole.Reread(ctx, func(ctx context.Context, _ []thole.Event) (*Run, error) {
		return h.Get(ctx)
	})
	if status != Succeeded && status != Failed {
		return nil, fmt.Errorf("finish run %s: %w: a worker's status is succeeded or failed, not %.40q", h.id, thole.ErrInvalid, status)
	}
	r, err := h.finish(ctx, status, brief(reason), usage)
	if errors.Is(err, thole.ErrConflict) || errors.Is(err, thole.ErrNotFound) { // the thread may have been destroyed just now
		r, err = h.finish(ctx, status, brief(reason), usage)
	}
	if errors.Is(err, thole.ErrFenced) { // the lease ends with the run
		if r, peekErr := h.rs.Peek(ctx, h.id); peekErr == nil && r.Ended() {
			err = fmt.Errorf("%w: it is %s", thole.ErrConflict, r.Status)
		}
	}
	if h.place != nil && (err == nil || errors.Is(err, thole.ErrConflict) || errors.Is(err, thole.ErrFenced)) {
		h.place.leaveUnlessAtWork()
	}
	if err != nil {
		return nil, fmt.Errorf("finish run %s: %w", h.id, err)
	}
	return r, nil
}

func (h *Handle) finish(ctx context.Context, status, reason string, usage map[string]Usage) (*Run, error) {
	_, err := thread.In(h.sp).Get(ctx, h.thread)
	if errors.Is(err, thole.ErrNotFound) { // destroyed: there is nothing to write to
		h.text.drop()
	}
	r, receipt, err := commitText(ctx, h, cuts, func(tx *thole.Tx) (*Run, error) {
		r, err := h.live(tx)
		if err != nil {
			return nil, err
		}
		_, err = thread.Load(tx, h.thread)
		gone := errors.Is(err, thole.ErrNotFound)
		if err != nil && !gone {
			return nil, err
		}
		if gone && r.Cancel == nil { // what it did is lost: that is no success
			r.Cancel = &Cancel{Cause: BySuperseded, Time: tx.Now()}
		}
		if !gone && status == Failed && r.Cancel == nil && reason != "" {
			if _, err := thread.PutBlock(tx, h.thread, h.turn, thread.Block{Type: thread.Failure, Content: reason}); err != nil {
				return nil, err
			}
		}
		if err := r.addUsage(usage); err != nil {
			return nil, err
		}
		if err := r.finish(tx, status, reason); err != nil {
			return nil, err
		}
		return load(tx, h.id)
	})
	if err != nil {
		return nil, err
	}
	r.Version = receipt.Last
	return r, nil
}

// goneError is what a handle's methods return once the run's thread is gone: a
// *CancelledError and thole.ErrNotFound in one.
func (h *Handle) goneError() error {
	return fmt.Errorf("%w: its thread %s: %w", &CancelledError{Run: h.id, Cause: BySuperseded}, h.thread, thole.ErrNotFound)
}

// there reports, as goneError, that the run's thread is gone.
func (h *Handle) there(tx *thole.Tx) error {
	_, err := thread.Load(tx, h.thread)
	if errors.Is(err, thole.ErrNotFound) {
		err = h.goneError()
	}
	return err
}

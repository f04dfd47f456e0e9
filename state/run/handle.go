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

// Handle is a worker's access to the run that it works on. Its writes have the run's
// agent as actor and the run as cause, and are made under the run's fence: once another
// worker has the run, or it has ended, they return ErrFenced. A Handle is safe for
// concurrent use; its commits happen one at a time, in the order of the calls.
type Handle struct {
	rs      *Runs
	sp      *thole.Space // under the fence
	id      string
	thread  string
	turn    string
	fence   thole.Fence
	request []thread.Block
	timeout time.Duration // 0: none
	member  *member       // in the claimer's group; nil: attached
	text    text
	commit  chan struct{} // capacity 1: held by the call that commits
	waits   waits
	doubts  doubts       // signals that a failed commit may have taken
	renewed atomic.Int64 // start of the last successful renewal, since epoch

	claimed  *Run // as it was when this handle claimed it; nil: attached, or begun by Do
	attached bool // there may be other handles on the run
	waited   bool // the run was waiting when this handle was attached
}

// epoch is the start of a Handle's times, which use Go's monotonic clock.
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

// Attach returns a handle on a run for the worker that holds fence, such as one that
// claimed the run in an earlier request. Errors: ErrNotFound; ErrFenced when fence is
// not the current one of the run's lease, unless the call on ctx repeats one made
// under its idempotency key before.
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

// Turn returns the id of the turn that the run writes.
func (h *Handle) Turn() string { return h.turn }

// Fence returns the fence of the run's lease, which [Runs.Attach] takes.
func (h *Handle) Fence() thole.Fence { return h.fence }

// Claimed returns the run as it was when [Runs.Claim] returned the handle.
func (h *Handle) Claimed() *Run { return h.claimed }

// Request returns the blocks of the user's message; nil if the handle was attached.
func (h *Handle) Request() []thread.Block { return slices.Clone(h.request) }

// Space returns the run's space for commits under the run's fence, with its agent as
// actor and the run as cause.
func (h *Handle) Space() *thole.Space { return h.sp }

// Get returns the run. Unlike [Runs.Get] it does not end a run whose lease has run
// out: a late worker that nobody has replaced may go on.
func (h *Handle) Get(ctx context.Context) (*Run, error) { return h.rs.Peek(ctx, h.id) }

// Update is Space.Update under the run's fence, in one commit with all text streamed so
// far. Use it for changes that belong together, such as a decision and the start of its
// tool (thread.StartTool with [Handle.Turn]; call [Handle.Go] first). Later text begins
// another block. Of the handle's methods, fn may call only [Handle.Go] and those that
// return a constant, such as [Handle.Turn].
func (h *Handle) Update(ctx context.Context, fn func(tx *thole.Tx) error) (thole.Result, error) {
	_, r, err := write(ctx, h, cuts, func(tx *thole.Tx) (none, error) { return none{}, fn(tx) })
	return thole.Result{First: r.First, Last: r.Last, Repeated: r.Repeated}, err
}

// none is the answer of a commit without a result.
type none = struct{}

// Go checks, within a Tx of [Handle.Update], that the run may still start something.
// Errors: *CancelledError when the run is to end; ErrConflict when it has ended. A
// cancel before the commit makes the Tx run again.
func (h *Handle) Go(tx *thole.Tx) error { return Go(tx, h.id) }

// Go is [Handle.Go] for any run of the space, and in any Tx. Other errors:
// ErrNotFound; ErrInvalid for a bad id.
func Go(tx *thole.Tx, id string) error {
	_, err := unless(tx, id)
	return err
}

// live loads the run; ErrConflict if it has ended.
func live(tx *thole.Tx, id string) (*Run, error) {
	r, err := load(tx, id)
	if err == nil && r.Ended() {
		err = fmt.Errorf("run %s: %w: it is %s", id, thole.ErrConflict, r.Status)
	}
	return r, err
}

func (h *Handle) live(tx *thole.Tx) (*Run, error) { return live(tx, h.id) }

// unless loads the run; *CancelledError if it is to end, ErrConflict if it has ended.
func unless(tx *thole.Tx, id string) (*Run, error) {
	r, err := live(tx, id)
	if err == nil && r.Cancel != nil {
		err = &CancelledError{Run: id, Cause: r.Cancel.Cause}
	}
	return r, err
}

func (h *Handle) unless(tx *thole.Tx) (*Run, error) { return unless(tx, h.id) }

// Block adds b to the response, or replaces the block with b's id, and returns the id.
func (h *Handle) Block(ctx context.Context, b thread.Block) (string, error) {
	ctx = thole.Call(ctx, "run.block", h.id)
	ctx = thole.Reread(ctx, rereadBlock)
	id, _, err := write(ctx, h, cuts, func(tx *thole.Tx) (string, error) {
		return thread.PutBlock(tx, h.thread, h.turn, b)
	})
	return id, err
}

// Append commits a chunk of text at its offset: see thread.AppendText. It is for
// workers that count offsets themselves; others use [Handle.Text].
func (h *Handle) Append(ctx context.Context, d thread.Delta) error {
	ctx = thole.Call(ctx, "run.append", h.id)
	d.Turn = h.turn
	_, err := h.Update(ctx, func(tx *thole.Tx) error { return thread.AppendText(tx, h.thread, d) })
	return err
}

// StartTool records a tool call before the tool acts, and returns the id of the block
// for its result. Watchers match the start and the end of the call by operationID, if
// it is not "". Errors: *CancelledError when the run is to end, so that no tool starts
// any more.
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

// FinishTool records how a tool call ended, once. It also works in a run that is to
// end, because the tool has already acted.
func (h *Handle) FinishTool(ctx context.Context, block string, res thread.ToolResult) error {
	ctx = thole.Call(ctx, "run.finish_tool", h.id, block)
	_, _, err := write(ctx, h, goesOn, func(tx *thole.Tx) (none, error) {
		return none{}, thread.FinishTool(tx, h.thread, h.turn, block, res)
	})
	return err
}

// maxModels bounds the models in a run's usage, which is part of its record.
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

// AddUsage adds the tokens of a call to model to the run's usage, even if its thread
// is destroyed. Errors: ErrInvalid for a negative number, ErrTooLarge for the 65th
// model, ErrConflict when the run has ended.
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
		r.emit(tx, "run.updated", UpdatedData{Run: r.ID, Model: model})
		return none{}, r.grow(tx)
	})
	return err
}

// maxReason bounds the reason of a failed run, in bytes.
const maxReason = 4 << 10

// brief cuts reason to maxReason.
func brief(reason string) string {
	if len(reason) > maxReason {
		reason = reason[:maxReason-len("…")] + "…"
	}
	return strings.ToValidUTF8(reason, "")
}

// Finish ends the run with status succeeded or failed and the given reason, and
// returns it. A run that is to end, or whose thread is destroyed, becomes cancelled (or
// timed_out) instead. Streamed text is kept. Errors: ErrConflict when the run had
// already ended, which changes nothing; ErrInvalid for another status; ErrFenced.
// [Handle.Do] finishes the run itself.
func (h *Handle) Finish(ctx context.Context, status, reason string) (*Run, error) {
	return h.FinishWith(ctx, status, reason, nil)
}

// FinishWith is Finish that also adds usage, by model, in the same commit. Errors:
// those of Finish; those of AddUsage, which leave the run unfinished.
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
	if h.member != nil && (err == nil || errors.Is(err, thole.ErrConflict) || errors.Is(err, thole.ErrFenced)) {
		h.member.leaveUnlessAtWork()
	}
	if err != nil {
		return nil, fmt.Errorf("finish run %s: %w", h.id, err)
	}
	return r, nil
}

func (h *Handle) finish(ctx context.Context, status, reason string, usage map[string]Usage) (*Run, error) {
	_, err := thread.In(h.sp).Get(ctx, h.thread)
	if errors.Is(err, thole.ErrNotFound) { // destroyed: text has nowhere to go
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
		if gone && r.Cancel == nil { // its work is lost, so it has not succeeded
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

// goneError returns the error of a handle's methods once the run's thread is
// destroyed. It is both a *CancelledError and thole.ErrNotFound.
func (h *Handle) goneError() error {
	return fmt.Errorf("%w: its thread %s: %w", &CancelledError{Run: h.id, Cause: BySuperseded}, h.thread, thole.ErrNotFound)
}

// there returns goneError if the run's thread is destroyed.
func (h *Handle) there(tx *thole.Tx) error {
	_, err := thread.Load(tx, h.thread)
	if errors.Is(err, thole.ErrNotFound) {
		err = h.goneError()
	}
	return err
}

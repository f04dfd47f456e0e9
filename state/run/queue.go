package run

import (
	"context"
	"fmt"
	"slices"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// Queue returns the thread's queued runs in the order in which they will start. The
// first may be ready and not yet claimed. If one run is active per owner, these are
// the runs of all the owner's threads, those that others asked for last. Runs that
// cannot be read are left out; doctor names them. [Runs.Cancel] removes one. Errors:
// ErrNotFound.
func (rs *Runs) Queue(ctx context.Context, threadID string) ([]*Run, error) {
	t, err := thread.In(rs.sp).Get(ctx, threadID)
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	rec, err := rs.sp.Get(ctx, slotKey(&t.Head))
	if err != nil || !rec.Exists() {
		return []*Run{}, err
	}
	var s slot
	if err := rec.As(&s); err != nil {
		return nil, err
	}
	ids := s.waiting()
	if s.Active != "" {
		ids = append([]string{s.Active}, ids...)
	}
	runs, err := rs.all(ctx, ids)
	return slices.DeleteFunc(runs, func(r *Run) bool { return r.Status != Queued }), err
}

// Edit is a change to a queued run. Nil fields change nothing.
type Edit struct {
	Prompt *string        // with Blocks: as in a Request; without: in place of the text that the request begins with, if any
	Blocks []thread.Block // if not nil, Prompt and Blocks replace the request, as those of a Request; not both empty
	Model  *string
}

// message returns what replaces the message old, if e has a Prompt or Blocks.
func (e *Edit) message(old []thread.Block) []thread.Block {
	if e.Blocks != nil {
		q := Request{Blocks: e.Blocks}
		if e.Prompt != nil {
			q.Prompt = *e.Prompt
		}
		return q.blocks()
	}
	if len(old) > 0 && old[0].Type == thread.Text {
		old = old[1:]
	}
	return append([]thread.Block{thread.TextBlock(*e.Prompt)}, old...)
}

// EditQueued changes a run that has not started, and emits run.updated; an empty Edit
// changes and emits nothing. The run keeps its place in the queue. Errors: ErrNotFound;
// ErrConflict once the run has started or ended; ErrInvalid; ErrTooLarge; *ConflictError
// when ifMatch is neither zero nor the run's version.
func (rs *Runs) EditQueued(ctx context.Context, id string, e Edit, ifMatch thole.Position) (*Run, error) {
	ctx = thole.Call(ctx, "run.edit", id)
	ctx = thole.Reread(ctx, func(ctx context.Context, _ []thole.Event) (*Run, error) {
		return rs.Peek(ctx, id)
	})
	if e.Model != nil {
		if err := modelName.CheckOptional(*e.Model); err != nil {
			return nil, fmt.Errorf("edit run %s: %w", id, err)
		}
	}
	r, receipt, err := thole.Update(ctx, rs.sp, func(tx *thole.Tx) (*Run, error) {
		r, err := load(tx, id)
		if err == nil {
			_, err = tx.Require(key(id), thole.Condition{At: ifMatch})
		}
		if err != nil {
			return nil, err
		}
		if r.Status != Queued {
			return nil, fmt.Errorf("%w: it is %s", thole.ErrConflict, r.Status)
		}
		if e.Blocks == nil && e.Prompt == nil && e.Model == nil {
			return r, nil
		}
		if e.Model != nil {
			r.Model = *e.Model
		}
		if e.Blocks != nil || e.Prompt != nil {
			if r.Request = e.message(r.Request); len(r.Request) == 0 {
				return nil, fmt.Errorf("%w: a message has blocks; delete the run to take it out of the queue", thole.ErrInvalid)
			}
			if err := checkMessage(r.Request); err != nil {
				return nil, err
			}
		}
		r.emit(tx, "run.updated", UpdatedData{Run: r.ID, Model: r.Model})
		r.Updated = tx.Now()
		return r, r.grow(tx)
	})
	if err != nil {
		return nil, fmt.Errorf("edit run %s: %w", id, err)
	}
	if !receipt.First.IsZero() {
		r.Version = receipt.Last
	}
	return r, nil
}

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// Resume starts a run that continues an ended one, in the same thread, as the old one
// was asked for: see [Request]. The new run gets the signals that the old one had not
// taken, and those after whose taking it did nothing more in its thread: no text, block,
// tool or sub-agent; its end does not count. The worker finds the interrupted turn in the
// history. A run is resumed once: if the run that resumed it did not succeed, resume that
// one. Errors: ErrNotFound; ErrConflict when the run has not ended, succeeded or was
// resumed before, or when another run is active.
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
		return rs.commitStart(ctx, old.Thread, Request{Policy: Reject, ResumedFrom: id})
	})
	if err != nil {
		return nil, fmt.Errorf("resume run %s: %w", id, err)
	}
	return rs.started(ctx, s, r)
}

// carryOver sets what q leaves open to what the run that it continues was asked for.
func (q *Request) carryOver(tx *thole.Tx, sp *thole.Space) error {
	if q.ResumedFrom == "" {
		return nil
	}
	old, err := load(tx, q.ResumedFrom)
	if err != nil {
		return err
	}
	agent, err := old.namedAgent(tx, sp)
	if err != nil {
		return err
	}
	setDefault(&q.Agent, agent)
	setDefault(&q.Model, old.Model)
	setDefault(&q.OnDisconnect, old.OnDisconnect)
	setDefault(&q.Timeout, seconds(old.Timeout))
	if q.Options == nil {
		q.Options = old.Options
	}
	return nil
}

// namedAgent returns the agent that r was asked for; "" if none. Earlier versions did not
// mark a run whose agent is its worker's, but run.queued says what was asked for.
func (r *Run) namedAgent(tx *thole.Tx, sp *thole.Space) (string, error) {
	if r.own.Unnamed {
		return "", nil
	}
	if r.Agent == "" || r.Started.IsZero() {
		return r.Agent, nil
	}
	q := thole.ReadQuery{Stream: r.stream(), Types: []string{"run.queued"}, Since: r.Created.Truncate(time.Second), Backward: true}
	for e, err := range sp.Events(tx.Context(), q) {
		if errors.Is(err, thole.ErrTrimmed) {
			break
		} else if err != nil {
			return "", err
		}
		var asked QueuedData
		if e.Data != nil && e.As(&asked) == nil && asked.Run == r.ID {
			return asked.Agent, nil
		}
	}
	return r.Agent, nil // of Do, which needs no worker; or the event was removed
}

// resume checks the run that r continues and sets its ResumedBy, so that no other run
// can continue it. r inherits its signals and, if its request is not in the history and r
// has none of its own, its request.
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
	removed := old.Turn != "" && !old.InHistory()
	if len(r.Request) == 0 {
		r.Request = old.Request // nil if it began
		if removed {
			if r.Request, err = old.removedRequest(tx, sp); err != nil {
				return err
			}
		}
	}
	r.own.Resumes = old.InHistory() || old.own.Resumes
	return r.inherit(tx, sp, old)
}

// InHistory reports whether r has a turn in its thread's history: it began, and was not rolled
// back.
func (r *Run) InHistory() bool {
	return r.Turn != "" && (r.Cancel == nil || !r.Cancel.Rollback)
}

// maxResumed bounds how many runs are followed that go on from each other.
const maxResumed = 100

// Last returns the last of the runs that go on from r and are kept, or r itself.
func (rs *Runs) Last(ctx context.Context, r *Run) (*Run, error) {
	for range maxResumed {
		if r.ResumedBy == "" {
			break
		}
		next, err := rs.Peek(ctx, r.ResumedBy)
		if errors.Is(err, thole.ErrNotFound) {
			break
		} else if err != nil {
			return nil, err
		}
		r = next
	}
	return r, nil
}

// GoesOn reports whether r goes on from a run that was in the history when r was asked for,
// so that r answers no message that was posted since. It is not known of runs in lists.
func (r *Run) GoesOn() bool { return r.own.Resumes }

// removedRequest returns what the user said in r's turn, which a rollback removed from the
// history: the events are still in the journal. It is empty if they are not.
func (r *Run) removedRequest(tx *thole.Tx, sp *thole.Space) (blocks []thread.Block, _ error) {
	found := false
	q := thole.ReadQuery{Stream: r.stream(), Types: []string{"message.added"}, Backward: true}
	for e, err := range sp.Events(tx.Context(), q) {
		if errors.Is(err, thole.ErrTrimmed) {
			break
		} else if err != nil {
			return nil, err
		}
		var a thread.Added
		if e.Data == nil { // redacted
			continue
		} else if err := e.As(&a); err != nil {
			return nil, err
		}
		switch {
		case a.Turn != r.Turn && found:
			return blocks, nil
		case a.Turn == r.Turn:
			found = true
			if a.Message != nil && a.Message.Role == thread.User {
				blocks = slices.Concat(a.Message.Blocks, blocks)
			}
		}
	}
	return blocks, nil
}

// resumedAlready returns the ErrConflict for a run that was resumed before: a second
// resume would repeat the work of the first. It names the run to resume instead.
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

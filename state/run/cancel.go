package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole"
)

// Cancel durably asks the run and all runs below it to end, and emits
// run.cancel_requested for each. No tool or sub-agent starts in them afterwards. A
// queued run ends at once; a running one ends when its worker finishes it, or when its
// lease runs out. A tree of some dozens of runs is one commit. A larger tree takes
// several, from the top down; if the process crashes between them, a sweep continues.
// A second cancel changes nothing, also after the run has ended.
//
// It returns the run as cancelled; so does a repeat under an idempotency key. Errors:
// ErrNotFound; ErrConflict when the run has ended without a cancel; ErrInvalid for an
// unknown cause.
func (rs *Runs) Cancel(ctx context.Context, id, cause string) (*Run, error) {
	return rs.cancel(thole.Call(ctx, "run.cancel", id), id, cause, false)
}

// Dequeue cancels a run that has not begun. Errors: ErrConflict if it has; else those of
// [Runs.Cancel].
func (rs *Runs) Dequeue(ctx context.Context, id string) (*Run, error) {
	return rs.cancel(thole.Call(ctx, "run.dequeue", id), id, ByUser, true)
}

func (rs *Runs) cancel(ctx context.Context, id, cause string, queued bool) (*Run, error) {
	if !slices.Contains([]string{ByUser, ByDisconnect, ByCredits, ByTimeout, BySuperseded, ByShutdown}, cause) {
		return nil, fmt.Errorf("cancel run %s: %w: %.40q is no cause", id, thole.ErrInvalid, cause)
	}
	type asked struct {
		Run  *Run     `json:"run"`
		Rest []string `json:"rest,omitempty"` // what did not fit into the commit
	}
	ctx = thole.Reread(ctx, func(ctx context.Context, _ []thole.Event) (asked, error) {
		now, err := rs.Peek(ctx, id)
		return asked{Run: now, Rest: []string{id}}, err
	})
	a, r, err := thole.Do(ctx, rs.sp, func(ctx context.Context) (asked, thole.Receipt, error) {
		if _, err := rs.Get(ctx, id); err != nil { // Get ends a run whose lease has run out
			return asked{}, thole.Receipt{}, err
		}
		return thole.Update(ctx, rs.sp, func(tx *thole.Tx) (a asked, err error) {
			r, err := load(tx, id)
			switch begun := err == nil && queued && !r.Started.IsZero(); {
			case begun && r.Ended():
				err = fmt.Errorf("%w: it has ended", thole.ErrConflict)
			case begun:
				err = fmt.Errorf("%w: it has begun; cancel it instead", thole.ErrConflict)
			case err == nil && r.Ended() && r.Cancel == nil:
				err = fmt.Errorf("%w: it is %s", thole.ErrConflict, r.Status)
			}
			if err != nil {
				return a, err
			}
			known := r.Cancel != nil
			c := canceller{tx: tx, cause: cause}
			if err := c.start(r, false); err != nil {
				return a, err
			}
			a.Rest = c.rest
			if a.Run, err = load(tx, id); !known && err == nil {
				a.Run.Version = thole.Position{} // set below to the commit's
			}
			return a, err
		})
	})
	if err == nil { // on a repeat, too: the first call may have stopped here
		err = cancelTree(thole.WithoutIdempotencyKey(ctx), rs.sp, a.Rest, cause)
	}
	if err != nil {
		return nil, fmt.Errorf("cancel run %s: %w", id, err)
	}
	if a.Run.Version.IsZero() {
		a.Run.Version = r.Last
	}
	return a.Run, nil
}

// cancelTree cancels the given runs and those below them, as many per commit as fit.
func cancelTree(ctx context.Context, sp *thole.Space, ids []string, cause string) error {
	seen := make(map[string]bool)
	for len(ids) > 0 {
		var c canceller
		_, err := sp.Update(ctx, func(tx *thole.Tx) error {
			c = canceller{tx: tx, cause: cause, seen: maps.Clone(seen)}
			for i, id := range ids {
				if c.items > maxItems {
					c.rest = append(c.rest, ids[i:]...)
					break
				}
				if err := c.child(id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		ids, seen = c.rest, c.seen
	}
	return nil
}

// Bounds of the commit items that a cancel uses: to load a run, to ask it to end, to
// end a queued one. Beyond maxItems, the remaining runs go into later commits.
const (
	lookItems   = 2
	askItems    = 3
	finishItems = 18
	maxItems    = thole.MaxCommitItems - 80
)

// canceller cancels runs within a Tx.
type canceller struct {
	tx    *thole.Tx
	cause string
	items int
	seen  map[string]bool // against cycles, which a raw commit can make
	rest  []string        // what did not fit
}

// start is cancel for the run at the top of a tree. If the tree does not fit into the
// commit, it writes a note, so that a sweep cancels the rest if this process dies.
func (c *canceller) start(r *Run, rollback bool) error {
	err := c.cancel(r, rollback)
	if err == nil && len(c.rest) > 0 {
		noteCancel(c.tx, r.ID, c.cause)
	}
	return err
}

// cancelling is the last part of the key of the note that the runs below a run are
// being cancelled. The note expires after cancelTTL.
const cancelling = "cancelling"

// cancelTTL is how long a process has to cancel a tree before a sweep takes over.
const cancelTTL = 5 * time.Second

type cancelNote struct {
	Cause string `json:"cause"`
}

func noteCancel(tx *thole.Tx, root, cause string) {
	tx.Put(key(root)+"/"+cancelling, cancelNote{Cause: cause}, &thole.WriteOptions{Expires: tx.Expiry(cancelTTL)})
}

// finishCancel cancels the runs below root that a crashed process may have left. It
// deletes the note through sp, the sweep's handle.
func finishCancel(ctx context.Context, sp *thole.Space, root string, note thole.Record) error {
	var n cancelNote
	if err := note.As(&n); err != nil {
		return err
	}
	if err := cancelTree(ctx, sp.Store().Space(sp.Name()), []string{root}, n.Cause); err != nil {
		return err
	}
	return thole.DeleteExpired(ctx, sp, note)
}

// cancel asks r, as loaded in this Tx, and the runs below it to end.
func (c *canceller) cancel(r *Run, rollback bool) error {
	if c.seen[r.ID] {
		return nil
	}
	if c.seen == nil {
		c.seen = make(map[string]bool)
	}
	c.seen[r.ID] = true
	c.items += askItems
	if !r.Ended() {
		asked := r.Cancel != nil
		if !asked {
			r.Cancel = &Cancel{Cause: c.cause, Time: c.tx.Now()}
		}
		if !asked || rollback && !r.Cancel.Rollback {
			r.Cancel.Rollback = rollback
			r.put(c.tx)
			r.emit(c.tx, "run.cancel_requested", CancelRequestedData{Run: r.ID, Cause: r.Cancel.Cause})
		}
		if r.Status == Queued {
			c.items += finishItems
			if err := r.finish(c.tx, Cancelled, ""); err != nil {
				return err
			}
		}
	}
	if r.own.Children == 0 {
		return nil
	}
	// A child that starts concurrently writes r's record, so this Tx would run again.
	prefix := key(r.ID) + "/child/"
	for after := ""; ; {
		recs, err := c.tx.List(thole.ListQuery{Prefix: prefix, After: after})
		if err != nil {
			return err
		}
		for _, rec := range recs {
			if err := c.child(strings.TrimPrefix(rec.Key, prefix)); err != nil {
				return err
			}
		}
		if len(recs) < thole.MaxPage {
			return nil
		}
		after = recs[len(recs)-1].Key
	}
}

func (c *canceller) child(id string) error {
	if c.items > maxItems {
		c.rest = append(c.rest, id)
		return nil
	}
	if c.seen[id] {
		return nil
	}
	c.items += lookItems
	r, err := load(c.tx, id)
	if unusable(err) {
		return nil
	} else if err != nil {
		return err
	}
	return c.cancel(r, false)
}

// unusable reports whether loading a run failed because it does not exist or cannot be
// read. Callers that end runs skip it.
func unusable(err error) bool {
	return errors.Is(err, thole.ErrNotFound) || errors.Is(err, thole.ErrInvalid) || errors.Is(err, thole.ErrCorrupt)
}

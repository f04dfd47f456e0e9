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

// Cancel asks the run and all runs below it to end, durably, and emits
// run.cancel_requested for each. Nothing starts in them afterwards. A queued one
// is cancelled at once; a running one when its worker finishes, or when its
// lease runs out. It is one commit for a tree of some dozens of runs; a larger
// one is done from the top down, and a sweep goes on where a crash cut it short. To
// cancel again changes nothing.
//
// It returns the run as it is then; repeated under an idempotency key, too.
// Errors: ErrNotFound; ErrConflict when the run has ended; ErrInvalid for an
// unknown cause.
func (rs *Runs) Cancel(ctx context.Context, id, cause string) (*Run, error) {
	ctx = thole.Call(ctx, "run.cancel", id)
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
		if _, err := rs.Get(ctx, id); err != nil { // which ends a run whose worker is dead
			return asked{}, thole.Receipt{}, err
		}
		return thole.Update(ctx, rs.sp, func(tx *thole.Tx) (a asked, err error) {
			r, err := load(tx, id)
			if err == nil && r.Ended() {
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
				a.Run.Version = thole.Position{} // the commit's
			}
			return a, err
		})
	})
	if err == nil { // on a repeat, too: the first call may not have come further
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

// cancelTree cancels the given runs and those below them, as many to a commit
// as fit.
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

// What cancelling takes of a commit's items: to look at a run, to ask one, to end a
// queued one. The tree is cut where maxItems is passed.
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
	seen  map[string]bool // so that it ends where a commit from outside made a cycle
	rest  []string        // what did not fit
}

// start is cancel of the run at the top of a tree. What does not fit into the commit
// is noted in it: a sweep does it if this process dies before.
func (c *canceller) start(r *Run, rollback bool) error {
	err := c.cancel(r, rollback)
	if err == nil && len(c.rest) > 0 {
		noteCancel(c.tx, r.ID, c.cause)
	}
	return err
}

// cancelling is the last part of the key of the note, which expires soon, that the
// runs below a run are being cancelled.
const cancelling = "cancelling"

// cancelTTL is how long the process that cancels a tree is left to it.
const cancelTTL = 5 * time.Second

type cancelNote struct {
	Cause string `json:"cause"`
}

func noteCancel(tx *thole.Tx, root, cause string) {
	tx.Put(key(root)+"/"+cancelling, cancelNote{Cause: cause}, &thole.WriteOptions{Expires: tx.Now().Add(cancelTTL)})
}

// finishCancel cancels what a crash may have left of the tree below root. The note
// goes through sp, its expirer's handle.
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

// cancel asks r, which is as loaded in this Tx, and those below it to end.
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
			r.emit(c.tx, "run.cancel_requested", Event{Cause: r.Cancel.Cause})
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
	// A child that starts now writes r's record, so this Tx would run again.
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

// unusable reports that a run which a record names is not there, or cannot be read. It
// ends nothing, and keeps nothing from ending.
func unusable(err error) bool {
	return errors.Is(err, thole.ErrNotFound) || errors.Is(err, thole.ErrInvalid) || errors.Is(err, thole.ErrCorrupt)
}

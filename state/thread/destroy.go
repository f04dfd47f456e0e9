package thread

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole"
)

// A thread ends in at least two commits, of which any process may make the later
// ones:
//
//	the end   thread/<id> deleted, with the event that tells the final state;
//	          thread-gone/<id> put
//	burial    the snapshots deleted; the sub-agents' threads destroyed, each in
//	          this way; the records
//	          below thread/<id>/ deleted, with a notice for the runs among them:
//	          see [Gone]; last, thread-gone/<id>
//
// Whatever writes below a thread checks the head in the same commit, and writes it or
// emits an event in the thread's stream. So the end tells all that was written before;
// after it nothing is written there any more, and the burial finds all that was.
// thread-gone/<id> expires soon: a sweep buries what a crash left.
const (
	goneKind = "thread-gone"
	graveTTL = 5 * time.Second // until then the process that ended the thread is at it
)

// Gone is what thread-gone/<id> holds, and the notice run/<id>/thread-gone, which
// expires at once, so that the package run hears of the end of the thread and ends
// its runs.
type Gone struct {
	Owner    string `json:"owner,omitempty"`
	RunScope string `json:"run_scope,omitempty"`
}

// GoneNotice is the last part of the key of that notice.
const GoneNotice = "thread-gone"

// expireGrave buries a thread that a crash left.
func expireGrave(ctx context.Context, sp *thole.Space, rec thole.Record) error {
	id := strings.TrimPrefix(rec.Key, goneKind+"/")
	if err := thole.CheckID("thrd", id); err != nil {
		return fmt.Errorf("%w: key %s: %w", thole.ErrCorrupt, rec.Key, err)
	}
	return burial{work: sp.Store().Space(sp.Name()), last: sp}.of(ctx, id)
}

// DestroyOptions of [Threads.Destroy].
type DestroyOptions struct {
	IfMatch thole.Position // the head's version must be this; zero: any
}

// maxBelow bounds how many records below a thread are handled in one commit.
const maxBelow = 200

// Destroy deletes the thread and all records below it, with those of its
// sub-agents' threads; from then on nothing can be written below it. Its event
// thread.destroyed carries the final state in the shape of thole.Expired, as
// thread.expired does when a ttl runs out. The events stay in the journal. A run
// that is active or waits in the thread ends as cancelled. After an error the
// thread may be destroyed; what is left of it then goes with the next sweep, or
// when the call is repeated, which is ErrNotFound without an idempotency key.
// Errors: ErrNotFound; *ConflictError when IfMatch does
// not hold.
func (ts *Threads) Destroy(ctx context.Context, id string, opts *DestroyOptions) error {
	return ts.destroy(ctx, id, opts, nil)
}

// destroy is Destroy of a thread below others that are being buried.
func (ts *Threads) destroy(ctx context.Context, id string, opts *DestroyOptions, above []string) error {
	ctx = thole.Call(ctx, "thread.destroy", id)
	_, err := ts.sp.Update(ctx, func(tx *thole.Tx) error {
		if opts != nil {
			if err := Require(tx, id, opts.IfMatch); err != nil {
				return err
			}
		}
		final, err := end(tx, id)
		if err != nil {
			return err
		}
		tx.Emit(Key(id), "thread.destroyed", final)
		return nil
	})
	// Not to be cut off: a run that destroys its own thread is cancelled by that.
	whole := context.WithoutCancel(thole.WithoutIdempotencyKey(ctx))
	if len(above) > 0 {
		whole = thole.WithoutIdempotencyKey(ctx)
	}
	b := burial{work: ts.sp, last: ts.sp, above: above}
	switch {
	case err == nil: // a repeat, too: the first call may not have come further
		err = b.of(whole, id)
	case errors.Is(err, thole.ErrNotFound): // perhaps for this reason
		if grave, graveErr := ts.sp.Get(whole, goneKind+"/"+id); graveErr == nil && grave.Exists() {
			err = errors.Join(err, b.of(whole, id))
		}
	}
	if err != nil {
		return fmt.Errorf("destroy thread %s: %w", id, err)
	}
	return nil
}

// expire ends a thread whose ttl ran out, as Destroy does.
func expire(ctx context.Context, sp *thole.Space, rec thole.Record) error {
	id := strings.TrimPrefix(rec.Key, "thread/")
	_, err := sp.Update(ctx, func(tx *thole.Tx) error {
		tx.Check(thole.Check{Key: rec.Key, At: rec.Version})
		if strings.Contains(id, "/") { // not the thread, only something in it
			tx.Delete(rec.Key)
			return nil
		}
		if err := thole.CheckID("thrd", id); err != nil {
			return fmt.Errorf("%w: key %s: %w", thole.ErrCorrupt, rec.Key, err)
		}
		final, err := end(tx, id)
		if err != nil {
			return err
		}
		tx.Emit(Key(id), "thread.expired", final)
		return nil
	})
	if err != nil || strings.Contains(id, "/") {
		return err
	}
	fresh := sp.Store().Space(sp.Name())
	return burial{work: fresh, last: fresh}.of(ctx, id)
}

// end deletes the thread's head and returns the final state, for the event.
func end(tx *thole.Tx, id string) (final thole.Expired, err error) {
	t, err := Load(tx, id)
	if errors.Is(err, thole.ErrCorrupt) { // nobody can read it, but it ends with what is below it
		t, err = &Thread{}, nil
	}
	if err != nil {
		return final, err
	}
	head, err := tx.Get(Key(id))
	if err != nil {
		return final, err
	}
	// Whatever is written below the thread writes its head or tells its stream. So what
	// is listed now is so at the commit, or this Tx runs again.
	if _, err := tx.Version(Key(id)); err != nil {
		return final, err
	}
	below, err := tx.List(thole.ListQuery{Prefix: Key(id) + "/", Limit: maxBelow})
	if err != nil {
		return final, err
	}
	final = thole.FinalState(head, below)
	tx.Delete(Key(id))
	tx.Put(goneKind+"/"+id, Gone{Owner: t.Owner, RunScope: t.RunScope}, &thole.WriteOptions{Expires: tx.Now().Add(graveTTL)})
	return final, nil
}

func hasRun(id string, below []thole.Record) bool {
	for _, r := range below {
		if strings.HasPrefix(r.Key, Key(id)+"/run/") {
			return true
		}
	}
	return false
}

// burial removes what is left of a thread that has ended.
type burial struct {
	work  *thole.Space
	last  *thole.Space // of the commit that removes thread-gone/<id>; in a sweep the expirer's
	above []string     // threads of which this one is a sub-agent's, and which are being buried
}

// of buries a thread. It may be done again, and by several at once. Only a commit
// from outside makes a thread one of its own sub-agents', or nests threads deeper than
// MaxDepth: a thread is buried once, and one that is deeper left to the sweep.
func (b burial) of(ctx context.Context, id string) error {
	if slices.Contains(b.above, id) || len(b.above) > MaxDepth {
		return nil
	}
	sp := b.work
	above := append(slices.Clip(b.above), id)
	// The grave is read although its time may be up: it expires so that a sweep
	// comes here, and the runs are told by what it holds.
	graves, err := sp.Store().Backend().Get(ctx, sp.Name(), goneKind+"/"+id)
	if err != nil || !graves[0].Exists() { // somebody has buried it
		return err
	}
	if err := sp.DeleteSnapshots(ctx, Key(id)); err != nil {
		return err
	}
	for more := true; more; {
		below, err := sp.List(ctx, thole.ListQuery{Prefix: Key(id) + "/", Limit: maxBelow})
		if err != nil {
			return err
		}
		more = len(below) == maxBelow
		for _, r := range below {
			child, ok := strings.CutPrefix(r.Key, Key(id)+"/child/")
			if !ok {
				continue
			}
			if err := In(sp).destroy(ctx, child, nil, above); err != nil && !errors.Is(err, thole.ErrNotFound) && !errors.Is(err, thole.ErrInvalid) {
				return err
			}
		}
		if !more {
			sp = b.last
		}
		_, err = sp.Update(ctx, func(tx *thole.Tx) error {
			for _, r := range below {
				tx.Delete(r.Key)
			}
			if hasRun(id, below) {
				tx.Put("run/"+id+"/"+GoneNotice, graves[0].Value, &thole.WriteOptions{Expires: tx.Now()})
			}
			if !more {
				tx.Delete(goneKind + "/" + id)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

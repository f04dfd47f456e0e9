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

// A thread is destroyed in at least two commits. Any process may make those after the
// first:
//
//	end       deletes thread/<id>, emits the event with the final state, and
//	          puts thread-gone/<id>
//	cleanup   deletes the snapshots and the applications' records below
//	          app/thread/<id>; destroys the sub-agents' threads in the same
//	          way; deletes the records below thread/<id>/ and, if there are runs
//	          among them, puts a notice for these (see [Gone]); finally deletes
//	          thread-gone/<id>
//
// Every commit that writes below a thread checks the head, and also writes the head or
// emits an event in the thread's stream. So the final state is complete, nothing is
// written below the thread after the end, and the cleanup finds everything. If a crash
// stops the cleanup, thread-gone/<id> expires and a sweep continues it.
const (
	goneKind   = "thread-gone"
	cleanupTTL = 5 * time.Second // how long the process that destroys a thread has for the cleanup
)

// Gone is the value of thread-gone/<id>, and of the notice run/<id>/thread-gone. The
// notice expires at once, so that a sweep calls package run, which ends the thread's
// runs.
type Gone struct {
	Owner    string `json:"owner,omitempty"`
	RunScope string `json:"run_scope,omitempty"`
}

// GoneNotice is the last part of the key of that notice.
const GoneNotice = "thread-gone"

// expireGone continues the cleanup of a thread after a crash.
func expireGone(ctx context.Context, sp *thole.Space, rec thole.Record) error {
	id := strings.TrimPrefix(rec.Key, goneKind+"/")
	if err := thole.CheckID("thrd", id); err != nil {
		return fmt.Errorf("%w: key %s: %w", thole.ErrCorrupt, rec.Key, err)
	}
	return cleanup{work: sp.Store().Space(sp.Name()), last: sp}.of(ctx, id)
}

// DestroyOptions of [Threads.Destroy].
type DestroyOptions struct {
	IfMatch thole.Position // the head's version must be this; zero: any
}

// maxBelow bounds how many records below a thread are handled in one commit.
const maxBelow = 200

// Destroy deletes the thread, its sub-agents' threads and all records below them.
// Afterwards nothing can be written below the thread. It emits thread.destroyed with
// the final state as a thole.Expired, as thread.expired has it when a ttl runs out. The
// thread's events stay in the journal. Its active and waiting runs end as cancelled.
//
// After an error the thread may be destroyed. The next sweep, or a repeated call, then
// deletes what is left; without an idempotency key the repeat returns ErrNotFound.
// Errors: ErrNotFound; *ConflictError when IfMatch does not hold.
func (ts *Threads) Destroy(ctx context.Context, id string, opts *DestroyOptions) error {
	return ts.destroy(ctx, id, opts, nil)
}

// destroy is Destroy for a thread below others whose cleanup is in progress.
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
	// Without ctx's cancel: a run that destroys its own thread cancels its own context.
	whole := context.WithoutCancel(thole.WithoutIdempotencyKey(ctx))
	if len(above) > 0 {
		whole = thole.WithoutIdempotencyKey(ctx)
	}
	b := cleanup{work: ts.sp, last: ts.sp, above: above}
	switch {
	case err == nil: // on a repeat, too: the first call may have stopped here
		err = b.of(whole, id)
	case errors.Is(err, thole.ErrNotFound): // perhaps an earlier call stopped here
		if gone, goneErr := ts.sp.Get(whole, goneKind+"/"+id); goneErr == nil && gone.Exists() {
			err = errors.Join(err, b.of(whole, id))
		}
	}
	if err != nil {
		return fmt.Errorf("destroy thread %s: %w", id, err)
	}
	return nil
}

// expire destroys a thread whose ttl ran out, as Destroy does.
func expire(ctx context.Context, sp *thole.Space, rec thole.Record) error {
	id := strings.TrimPrefix(rec.Key, "thread/")
	_, err := sp.Update(ctx, func(tx *thole.Tx) error {
		tx.Check(thole.Check{Key: rec.Key, At: rec.Version})
		if strings.Contains(id, "/") { // a record below the thread
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
	return cleanup{work: fresh, last: fresh}.of(ctx, id)
}

// end deletes the thread's head and returns the final state for the event.
func end(tx *thole.Tx, id string) (final thole.Expired, err error) {
	t, err := Load(tx, id)
	if errors.Is(err, thole.ErrCorrupt) { // an unreadable head is deleted like any other
		t, err = &Thread{}, nil
	}
	if err != nil {
		return final, err
	}
	head, err := tx.Get(Key(id))
	if err != nil {
		return final, err
	}
	// Every write below the thread also writes its head or its stream. So if this list
	// changes before the commit, this Tx runs again.
	if _, err := tx.Version(Key(id)); err != nil {
		return final, err
	}
	below, err := tx.List(thole.ListQuery{Prefix: Key(id) + "/", Limit: maxBelow})
	if err != nil {
		return final, err
	}
	final = thole.FinalState(head, below)
	tx.Delete(Key(id))
	tx.Delete(apps(id))
	tx.Put(goneKind+"/"+id, Gone{Owner: t.Owner, RunScope: t.RunScope}, &thole.WriteOptions{Expires: tx.Expiry(cleanupTTL)})
	return final, nil
}

// apps returns the key at and below which applications keep records of the thread.
func apps(id string) string { return "app/" + Key(id) }

func hasRun(id string, below []thole.Record) bool {
	for _, r := range below {
		if strings.HasPrefix(r.Key, Key(id)+"/run/") {
			return true
		}
	}
	return false
}

// cleanup is the cleanup of a thread that has ended.
type cleanup struct {
	work  *thole.Space
	last  *thole.Space // for the commit that deletes thread-gone/<id>; in a sweep, the sweep's handle
	above []string     // the threads above this one whose cleanup is in progress
}

// of cleans up a thread. It is idempotent, and several processes may do it at once. A
// raw commit can make a thread its own descendant, or nest threads deeper than MaxDepth:
// of skips the former, and leaves the latter to the sweep.
func (b cleanup) of(ctx context.Context, id string) error {
	if slices.Contains(b.above, id) || len(b.above) > MaxDepth {
		return nil
	}
	sp := b.work
	above := append(slices.Clip(b.above), id)
	// Read past the store, which hides expired records: a sweep comes here because
	// this one has expired, and the notice for the runs has the same value.
	gone, err := sp.Store().Backend().Get(ctx, sp.Name(), goneKind+"/"+id)
	if err != nil || !gone[0].Exists() { // the cleanup is done
		return err
	}
	if err := errors.Join(sp.DeleteSnapshots(ctx, Key(id)), sp.DeleteBelow(ctx, apps(id))); err != nil {
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
				tx.Put("run/"+id+"/"+GoneNotice, gone[0].Value, &thole.WriteOptions{Expires: tx.Now()})
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

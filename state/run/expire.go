package run

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

const crashReason = "its worker's lease ran out"

func deadlineKey(id string) string { return key(id) + "/deadline" }

// expire handles an expired record run/<id>/…: a lease's beat, a deadline, a notice
// or a note.
func expire(ctx context.Context, sp *thole.Space, rec thole.Record) error {
	id, what, _ := strings.Cut(strings.TrimPrefix(rec.Key, "run/"), "/")
	switch what {
	case thread.GoneNotice:
		return endAll(ctx, sp, id, rec)
	case cancelling:
		return finishCancel(ctx, sp, id, rec)
	}
	var rest []string
	cause := ByShutdown
	_, err := sp.Update(ctx, func(tx *thole.Tx) error {
		rest = nil
		tx.Check(thole.Check{Key: rec.Key, At: rec.Version})
		tx.Delete(rec.Key)
		r, err := load(tx, id)
		if errors.Is(err, thole.ErrNotFound) || errors.Is(err, thole.ErrInvalid) || err == nil && r.Ended() {
			return nil
		} else if err != nil {
			return err
		}
		switch what {
		case "beat":
			rest, err = r.crash(tx)
		case "deadline":
			cause = ByTimeout
			c := canceller{tx: tx, cause: cause}
			err = c.start(r, false)
			rest = c.rest
		}
		return err
	})
	if err != nil {
		return err
	}
	return cancelTree(ctx, sp.Store().Space(sp.Name()), rest, cause)
}

// maxEnded bounds how many waiting runs of a destroyed thread one commit ends.
const maxEnded = 8

// endAll ends the runs of a destroyed thread: it cancels those that wait and asks the
// active one to end. It deletes the notice last, through sp, the sweep's handle.
func endAll(ctx context.Context, sp *thole.Space, threadID string, notice thole.Record) error {
	var gone thread.Gone
	if err := notice.As(&gone); err != nil {
		return err
	}
	slot := slotKey(&thread.Head{ID: threadID, Owner: gone.Owner, RunScope: gone.RunScope})
	fresh := sp.Store().Space(sp.Name())
	var rest []string
	done := make(map[string]bool) // after drop, a slot other than the run's own may still name it
	for more := true; more; {
		var now []string
		_, err := fresh.Update(ctx, func(tx *thole.Tx) error {
			more, rest, now = false, nil, nil
			s, err := loadSlot(tx, slot)
			if err != nil {
				return err
			}
			for _, id := range s.waiting() {
				if done[id] || slices.Contains(now, id) {
					continue
				}
				r, err := load(tx, id)
				if unusable(err) || err == nil && r.Thread != threadID {
					continue
				} else if err != nil {
					return err
				}
				if len(now) == maxEnded {
					more = true
					return nil
				}
				now = append(now, id)
				if err := r.drop(tx); err != nil {
					return err
				}
			}
			rest, err = endActive(tx, slot, threadID)
			return err
		})
		if err != nil {
			return err
		}
		for _, id := range now {
			done[id] = true
		}
	}
	if err := cancelTree(ctx, fresh, rest, BySuperseded); err != nil {
		return err
	}
	return thole.DeleteExpired(ctx, sp, notice)
}

// endActive asks the run that is active in the slot to end, if it belongs to the
// thread. It returns the runs below it that did not fit into the commit.
func endActive(tx *thole.Tx, slot, threadID string) (rest []string, _ error) {
	s, err := loadSlot(tx, slot)
	if err != nil || s.Active == "" {
		return nil, err
	}
	r, err := load(tx, s.Active)
	if unusable(err) || err == nil && r.Thread != threadID {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	c := canceller{tx: tx, cause: BySuperseded, items: maxEnded * finishItems}
	err = c.start(r, false)
	return c.rest, err
}

// crash ends the run, whose lease has run out, and asks the runs below it to end,
// because nobody waits for their results. It returns those that did not fit into the
// commit.
func (r *Run) crash(tx *thole.Tx) (rest []string, err error) {
	if err := r.finish(tx, Crashed, crashReason); err != nil {
		return nil, err
	}
	c := canceller{tx: tx, cause: ByShutdown, items: finishItems}
	err = c.start(r, false)
	return c.rest, err
}

// reap ends the run if its lease has run out, as a sweep would; the sweeping process
// may not have been given this concept. It also cancels a queued run whose thread is
// destroyed, as a worker would, and makes the first waiting run active if no run is.
func (rs *Runs) reap(ctx context.Context, id string) error {
	sp := rs.sp.Store().Space(rs.sp.Name())
	ctx = thole.WithoutIdempotencyKey(ctx)
	var rest []string
	_, err := sp.Update(ctx, func(tx *thole.Tx) error {
		rest = nil
		r, err := load(tx, id)
		if err != nil || r.Ended() {
			return err
		}
		if r.Status == Queued && !r.own.Reserved {
			_, err := thread.Load(tx, r.Thread)
			if errors.Is(err, thole.ErrNotFound) {
				return r.drop(tx)
			} else if err == nil {
				_, rest, err = occupant(tx, r.own.Slot)
			}
			if errors.Is(err, thole.ErrCorrupt) {
				return nil // the run waits until the thread or the slot is repaired
			}
			return err
		}
		if dead, err := r.dead(tx); err != nil || !dead {
			return err
		}
		rest, err = r.crash(tx)
		return err
	})
	if err != nil {
		return err
	}
	return cancelTree(ctx, sp, rest, ByShutdown)
}

// dead reports whether r should have a worker and its lease has run out. Callers that
// need the slot at once do not wait for the sweep.
func (r *Run) dead(tx *thole.Tx) (bool, error) {
	if r.Status == Queued && !r.own.Reserved {
		return false, nil
	}
	l, err := tx.Lease(key(r.ID))
	return !l.Alive, err
}

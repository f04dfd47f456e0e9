package decision

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/thole-dev/thole"
)

// The process that acts holds the lease decision-act/<id>, which the commit of the plan
// acquires and the commit of the outcome releases. While it is alive, nobody else acts or
// verifies. Decisions planned without [Decisions.Do] or [Decisions.Once] have no lease.
const (
	acts     = "decision-act/"
	actLease = 30 * time.Second // how long an actor that died still counts as acting
	lookAt   = time.Second      // how often a waiting call checks the lease
)

func begin(tx *thole.Tx, id string) (thole.Fence, error) {
	return tx.Acquire(acts+id, thole.NewID("act"), actLease)
}

// act calls fn and renews the lease meanwhile, even if a fence of the handle is lost,
// because fn goes on.
func (d *Decisions) act(ctx context.Context, lease thole.Fence, fn Act) (any, error) {
	kept, stop := context.WithCancel(context.WithoutCancel(ctx))
	var keeper sync.WaitGroup
	keeper.Go(func() { _ = d.sp.WithoutFences().KeepLease(kept, lease, actLease) })
	defer keeper.Wait()
	defer stop()
	return fn(ctx)
}

// sight is the result of look.
type sight struct {
	Decision
	acting bool        // another process acts
	lease  thole.Fence // of the act, which is now the caller's
	taken  bool        // lease is set
}

// look reads a decision without an outcome together with its lease. With redo it acquires
// the lease of an idempotent act that nobody does, provided run may still begin something.
func (d *Decisions) look(ctx context.Context, id string, redo bool, run string) (s sight, err error) {
	res, err := d.sp.Update(thole.WithoutIdempotencyKey(ctx), func(tx *thole.Tx) error {
		s = sight{}
		rec, err := tx.Get(all + id)
		if err != nil {
			return err
		}
		if s.Decision, err = read(id, rec); err != nil || s.Status != Planned {
			return err
		}
		held, err := tx.Lease(acts + id)
		if s.acting = held.Alive; err != nil || s.acting || !redo || !s.Idempotent {
			return err
		}
		if err := mayBegin(tx, run); err != nil {
			return err
		}
		s.taken = true
		s.lease, err = begin(tx, id)
		return err
	})
	s.lease = s.lease.At(res)
	return s, err
}

// await waits until nobody acts and returns what look then returns. Errors: ErrConflict if
// ctx ends before.
func (d *Decisions) await(ctx context.Context, id, run string) (sight, error) {
	s, err := d.look(ctx, id, true, run)
	if err != nil || !s.acting {
		return s, err
	}
	w, err := d.sp.Watch(ctx, &thole.WatchOptions{Streams: []string{Stream}, Types: []string{TypeResolved}, Durable: true})
	if err == nil {
		defer w.Close()
	}
	for err == nil && ctx.Err() == nil {
		if s, err = d.look(ctx, id, true, run); err == nil && !s.acting {
			return s, nil
		}
		if err == nil {
			err = news(ctx, w)
		}
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: decision %s is on its way: %w", thole.ErrConflict, id, context.Cause(ctx))
	}
	return s, err
}

// news waits for an event, at most lookAt.
func news(ctx context.Context, w *thole.Watch) error {
	wait, cancel := context.WithTimeout(ctx, lookAt)
	defer cancel()
	if _, err := w.Next(wait); err != nil && wait.Err() == nil && !errors.Is(err, thole.ErrTrimmed) {
		return err
	}
	return nil
}

package run

import (
	"context"
	"errors"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// A run's worker renews its lease with every heartbeat; two may fail. When the lease runs
// out, the run ends: see expire.
const (
	defaultLease       = 30 * time.Second
	heartbeatsPerLease = 3
)

// Lease returns how long the run's worker may be silent: see [Options.Lease].
func (h *Handle) Lease() time.Duration { return h.rs.opts.Lease }

// keep renews the lease until ctx ends, and stops the work on ErrFenced. After other
// errors it tries again, because a late holder may still write. It also renews while
// work in a destroyed thread comes to its end.
func (h *Handle) keep(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(h.rs.opts.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := h.renew(ctx); errors.Is(err, thole.ErrFenced) {
				stop(err)
				return
			}
		}
	}
}

// Heartbeat renews the run's lease, unless its thread is destroyed: then the lease
// runs out, which ends the run. It ignores an idempotency key, because it is safe to
// repeat. Errors: ErrFenced; a *CancelledError that is also ErrNotFound when the thread
// is destroyed. [Handle.Do] renews the lease itself.
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

// LeaseEnds returns when the lease ends unless this worker renews it again. Work that
// may outlive this process, such as a command, should end by then.
func (h *Handle) LeaseEnds() time.Time {
	return epoch.Add(time.Duration(h.renewed.Load()) + h.rs.opts.Lease)
}

package router

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/thole-dev/thole/journal"
)

// Capabilities implements [journal.Backend]. The durability is the weakest of all
// backends. Functions such as hints and broadcasts combine those of the backends that
// have them. Each backend is a shard; a space without a rule counts to the first.
func (b *Backend) Capabilities() journal.Capabilities {
	parts := make(parts, len(b.parts))
	for i, part := range b.parts {
		parts[i] = part.Capabilities()
	}
	c := journal.Capabilities{
		Durability: parts.durability(),
		Shards:     len(b.parts),
		Shard: func(space string) int {
			part, _ := b.part(space)
			return part
		},
		Hints:             nil, // set below if a part has it; so are the others
		SendBroadcasts:    nil,
		ReceiveBroadcasts: nil,
		Check:             nil,
		Stopped:           nil,
		Report:            nil,
	}
	for _, part := range parts {
		if part.Hints != nil {
			c.Hints = parts.hints
		}
		if part.SendBroadcasts != nil {
			c.SendBroadcasts, c.ReceiveBroadcasts = b.sendBroadcasts, parts.receiveBroadcasts
		}
		if part.Check != nil {
			c.Check = parts.check
		}
		if part.Stopped != nil {
			c.Stopped = parts.stopped
		}
		if part.Report != nil {
			c.Report = parts.report
		}
	}
	return c
}

// parts are the capabilities of several backends.
type parts []journal.Capabilities

func (ps parts) durability() journal.Durability {
	grades := []journal.Durability{journal.Sync, journal.Replicated, journal.Relaxed, journal.None}
	weakest := 0
	for _, p := range ps {
		weakest = max(weakest, slices.Index(grades, p.Durability))
	}
	return grades[weakest]
}

// hints passes on the hints of all backends. If one fails, the others continue, and
// hints returns its error at the end.
func (ps parts) hints(ctx context.Context, wake func(space string)) error {
	return together(ps, ctx.Done(), func(p journal.Capabilities) error {
		if p.Hints == nil {
			return nil
		}
		return p.Hints(ctx, wake)
	})
}

// sendBroadcasts sends each broadcast to the backend that its space lives in. If there
// is none, or the backend has no broadcasts, the broadcast is lost.
func (b *Backend) sendBroadcasts(ctx context.Context, list []journal.Broadcast) error {
	of := b.split(len(list), func(i int) string { return list[i].Space }, func(int, error) {})
	return b.each(of, func(part int, at []int) error {
		send := b.parts[part].Capabilities().SendBroadcasts
		if send == nil {
			return nil
		}
		sub := make([]journal.Broadcast, len(at))
		for i, n := range at {
			sub[i] = list[n]
		}
		return send(ctx, sub)
	})
}

// receiveBroadcasts passes on the broadcasts of all backends, one at a time. When one
// backend ends, it ends all, so that the caller can start over.
func (ps parts) receiveBroadcasts(ctx context.Context, hear func(journal.Broadcast)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var one sync.Mutex // held over hear, which must not run concurrently
	return together(ps, ctx.Done(), func(p journal.Capabilities) error {
		if p.ReceiveBroadcasts == nil {
			return nil
		}
		defer cancel()
		return p.ReceiveBroadcasts(ctx, func(s journal.Broadcast) {
			one.Lock()
			defer one.Unlock()
			hear(s)
		})
	})
}

func (ps parts) check(ctx context.Context) error {
	var errs []error
	for _, p := range ps {
		if p.Check != nil {
			errs = append(errs, p.Check(ctx))
		}
	}
	return errors.Join(errs...)
}

// stopped waits until a backend stops and returns why.
func (ps parts) stopped(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return together(ps, ctx.Done(), func(p journal.Capabilities) error {
		if p.Stopped == nil {
			return nil
		}
		err := p.Stopped(ctx)
		if err != nil {
			cancel()
		}
		return err
	})
}

func (ps parts) report() (lines []string) {
	for _, p := range ps {
		if p.Report != nil {
			lines = append(lines, p.Report()...)
		}
	}
	return lines
}

// together calls do for all parts in parallel. It returns their joined errors once all
// calls have returned and done is closed.
func together(ps parts, done <-chan struct{}, do func(journal.Capabilities) error) error {
	errs := make([]error, len(ps))
	var wg sync.WaitGroup
	for i, p := range ps {
		wg.Go(func() { errs[i] = do(p) })
	}
	wg.Wait()
	<-done
	return errors.Join(errs...)
}

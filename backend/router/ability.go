package router

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/thole-dev/thole/journal"
)

// Durability implements [journal.Durable]: the weakest of all backends.
func (b *Backend) Durability() journal.Durability {
	grades := []journal.Durability{journal.Sync, journal.Replicated, journal.Relaxed, journal.None}
	weakest := 0
	for _, part := range b.parts {
		if d, ok := part.(journal.Durable); ok {
			weakest = max(weakest, slices.Index(grades, d.Durability()))
		}
	}
	return grades[weakest]
}

// Shards implements [journal.Sharded].
func (b *Backend) Shards() int { return len(b.parts) }

// Shard implements [journal.Sharded]. A space without a rule counts to the first.
func (b *Backend) Shard(space string) int {
	part, _ := b.part(space)
	return part
}

// Watch implements [journal.Watcher] with the hints of those backends that give
// some. When one stops, the others' go on, and its error is returned at the end.
func (b *Backend) Watch(ctx context.Context, wake func(space string)) error {
	return together(b.parts, func(w journal.Watcher) error {
		return w.Watch(ctx, wake)
	}, ctx.Done())
}

// relaying is a Backend of which some parts carry signals.
type relaying struct{ *Backend }

// Send implements [journal.Relay]: each signal goes to the backend that its space
// lives in; if there is none, or it carries none, the signal is lost.
func (b relaying) Send(ctx context.Context, signals []journal.Signal) error {
	of := b.split(len(signals), func(i int) string { return signals[i].Space }, func(int, error) {})
	return b.each(of, func(part int, at []int) error {
		r, ok := b.parts[part].(journal.Relay)
		if !ok {
			return nil
		}
		sub := make([]journal.Signal, len(at))
		for i, n := range at {
			sub[i] = signals[n]
		}
		return r.Send(ctx, sub)
	})
}

// Receive implements [journal.Relay] with the signals of all backends that carry
// some. When one stops, all do, so that the caller begins anew.
func (b relaying) Receive(ctx context.Context, hear func(journal.Signal)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var one sync.Mutex // held over hear, which hears one at a time
	return together(b.parts, func(r journal.Relay) error {
		defer cancel()
		return r.Receive(ctx, func(s journal.Signal) {
			one.Lock()
			defer one.Unlock()
			hear(s)
		})
	}, ctx.Done())
}

// together runs do on all backends with the ability A. It returns their errors
// when all have ended and done is closed.
func together[A any](parts []journal.Backend, do func(A) error, done <-chan struct{}) error {
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		if able, ok := part.(A); ok {
			wg.Go(func() { errs[i] = do(able) })
		}
	}
	wg.Wait()
	<-done
	return errors.Join(errs...)
}

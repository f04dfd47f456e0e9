package backendtest

import (
	"context"
	"sync"
	"testing"

	"github.com/thole-dev/thole/journal"
)

// able is a good backend with other Capabilities.
type able struct {
	journal.Backend
	can journal.Capabilities
}

func (b able) Capabilities() journal.Capabilities { return b.can }

// hinting breaks the hints of a harness that has them.
func hinting(hints func(ctx context.Context, good hints, wake func(space string)) error) func(testing.TB, Harness, Opener) Harness {
	return func(_ testing.TB, good Harness, _ Opener) Harness {
		can := good.Backend.Capabilities()
		if within := can.Hints; within != nil {
			can.Hints = func(ctx context.Context, wake func(string)) error { return hints(ctx, within, wake) }
			good.Backend = able{good.Backend, can}
		}
		return good
	}
}

// hints is [journal.Capabilities].Hints.
type hints = func(ctx context.Context, wake func(space string)) error

func brokenWatches() []broken {
	const ends, hints = "watch/ends with its context and returns nil", "watch/a hint comes after the commit can be read"
	return []broken{
		{"another process's commit wakes nobody", hints, hinting(watchNothing)},
		{"hints come before the commit can be read", hints, hintEarly},
		{"hints name another space", hints, hinting(watchAnother)},
		{"a watch ends at once", ends, hinting(watchBriefly)},
		{"a watch ends after a hint", "watch/goes on until its context ends", hinting(watchOnce)},
		{"a watch goes on after its context", ends, watchForever},
		{"a watch returns its context's error", ends, hinting(watchFails)},
		{"a watch leaves a goroutine", "watch/leaves no goroutine after close", watchLeaks},
		{"a commit leaves a goroutine", "close/leaves no goroutine", commitLeaks},
	}
}

func watchNothing(ctx context.Context, _ hints, _ func(string)) error {
	<-ctx.Done()
	return nil
}

// hintEarly wakes before another instance commits, not after.
func hintEarly(_ testing.TB, good Harness, _ Opener) Harness {
	if !good.has(Hints) || !good.has(Seconds) {
		return good
	}
	var mu sync.Mutex
	var wakes []func(string)
	can := good.Backend.Capabilities()
	can.Hints = func(ctx context.Context, wake func(string)) error {
		mu.Lock()
		wakes = append(wakes, wake)
		mu.Unlock()
		<-ctx.Done()
		return nil
	}
	good.Backend = able{good.Backend, can}
	second := good.Second
	good.Second = func(t testing.TB) journal.Backend {
		return committing{second(t), func(ctx context.Context, good journal.Backend, batch []journal.Commit) ([]journal.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, wake := range wakes {
				wake(batch[0].Space)
			}
			return good.Commit(ctx, batch)
		}}
	}
	return good
}

func watchAnother(ctx context.Context, good hints, wake func(string)) error {
	return good(ctx, func(string) { wake("user:nobody") })
}

func watchBriefly(context.Context, hints, func(string)) error { return nil }

func watchOnce(ctx context.Context, good hints, wake func(string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return good(ctx, func(space string) {
		wake(space)
		cancel()
	})
}

func watchFails(ctx context.Context, good hints, wake func(string)) error {
	if err := good(ctx, wake); err != nil {
		return err
	}
	return ctx.Err()
}

// untilCleanup returns a channel that is closed when the test ends, so that what is
// broken on purpose still ends.
func untilCleanup(t testing.TB) <-chan struct{} {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	return over
}

func watchForever(t testing.TB, good Harness, open Opener) Harness {
	over := untilCleanup(t)
	return hinting(func(context.Context, hints, func(string)) error {
		<-over
		return nil
	})(t, good, open)
}

func watchLeaks(t testing.TB, good Harness, open Opener) Harness {
	over := untilCleanup(t)
	return hinting(func(ctx context.Context, good hints, wake func(string)) error {
		go func() { <-over }()
		return good(ctx, wake)
	})(t, good, open)
}

func commitLeaks(t testing.TB, good Harness, open Opener) Harness {
	over := untilCleanup(t)
	return wrapped(answering(func(context.Context, journal.Backend, []journal.Commit, []journal.Result) error {
		go func() { <-over }()
		return nil
	}))(t, good, open)
}

package statetest_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

func TestTimesThatAreNegativeOrTooLongAreRefused(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx := t.Context()
		sp := e.Space("project:shop")
		th := newThread(t, sp, thread.CreateOptions{})
		held, err := lock.In(sp).Acquire(ctx, "held", nil)
		must(t, "acquire", err)
		century := thole.MaxTTL
		for _, tt := range []struct {
			what string
			max  time.Duration
			do   func(d time.Duration) error
		}{
			{"a lock", thole.MaxLease, func(d time.Duration) error {
				l, err := lock.In(sp).Acquire(ctx, "f", &lock.Options{TTL: d})
				if err == nil {
					err = l.Release(ctx)
				}
				return err
			}},
			{"a renewal", thole.MaxLease, func(d time.Duration) error { return lock.In(sp).Renew(ctx, "held", held.Fence, d) }},
			{"a value", century, func(d time.Duration) error {
				_, err := kv.In(sp).Set(ctx, "n", "k", 1, &kv.SetOptions{TTL: d})
				return err
			}},
			{"a thread", century, func(d time.Duration) error {
				_, err := thread.In(sp).Create(ctx, &thread.CreateOptions{TTL: d})
				return err
			}},
			{"a thread's change", century, func(d time.Duration) error {
				n := int64(d / time.Second)
				_, err := thread.In(sp).Patch(ctx, th, thread.Patch{TTL: &n}, nil)
				return err
			}},
			{"a run's timeout", century, func(d time.Duration) error {
				_, err := run.In(sp, nil).Start(ctx, th, run.Request{Prompt: "go", Timeout: d})
				return err
			}},
		} {
			must(t, tt.what+" of the longest time", tt.do(tt.max))
			for _, d := range []time.Duration{-1 * time.Second, math.MinInt64, tt.max + time.Second, math.MaxInt64} {
				if err := tt.do(d); !errors.Is(err, thole.ErrInvalid) {
					t.Errorf("%s of %v: got %v, want ErrInvalid", tt.what, d, err)
				}
			}
		}
	})
}

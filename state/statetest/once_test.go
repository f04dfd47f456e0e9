package statetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
	"github.com/thole-dev/thole/state/todo"
)

// charge starts a run in the thread, which must not happen twice.
func charge(ctx context.Context, sp *thole.Space, thread string) error {
	_, err := run.In(sp, nil).Start(ctx, thread, run.Request{Prompt: "charge the card"})
	return err
}

// A call that changes nothing, or is refused, leaves no receipt; the next call keeps
// its own number.
func TestAnOperationIsDoneOnceWhateverItsFirstCallFinds(t *testing.T) {
	first := map[string]func(context.Context, *kv.Store) error{
		"nothing to do": func(ctx context.Context, s *kv.Store) error {
			existed, err := s.Delete(ctx, "cache", "answer", nil)
			if existed {
				err = errors.New("the delete says that there was something")
			}
			return err
		},
		"refused": func(ctx context.Context, s *kv.Store) error {
			_, err := s.Set(ctx, "n", "taken", 2, &kv.SetOptions{IfAbsent: true})
			if !errors.Is(err, thole.ErrConflict) {
				return errors.Join(err, errors.New("the set was not refused"))
			}
			return nil
		},
	}
	for name, call := range first {
		t.Run(name, func(t *testing.T) {
			statetest.Each(t, func(t *testing.T, e *statetest.Env) {
				sp := e.Space("project:shop")
				th := got(thread.In(sp).Create(t.Context(), nil))(t)
				got(kv.In(sp).Set(t.Context(), "n", "taken", 1, nil))(t)
				for range 3 {
					ctx := thole.Operation(thole.WithIdempotencyKey(t.Context(), "k", "f"))
					if err := errors.Join(call(ctx, kv.In(sp)), charge(ctx, sp, th.ID)); err != nil {
						t.Error(err)
					}
				}
				if p := got(run.In(sp, nil).List(t.Context(), th.ID, nil))(t); len(p.Items) != 1 {
					t.Errorf("%d runs under one idempotency key, want 1", len(p.Items))
				}
			})
		})
	}
}

// The process dies after the act, before the outcome is recorded.
func TestAnActThatIsDoneAgainAfterACrashFindsWhatItDid(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		th := got(thread.In(sp).Create(t.Context(), nil))(t)
		do := func(crash bool) {
			defer func() { _ = recover() }()
			ctx := thole.WithIdempotencyKey(t.Context(), "k", "f")
			_, err := decision.In(sp).Do(ctx, decision.Plan{Action: "ask", Idempotent: true, Input: json.RawMessage("1")}, func(ctx context.Context) (any, error) {
				if _, err := kv.In(sp).Delete(ctx, "cache", "answer", nil); err != nil {
					return nil, err
				}
				err := charge(ctx, sp, th.ID)
				if crash {
					panic("the process dies")
				}
				return nil, err
			})
			if err != nil {
				t.Error(err)
			}
		}
		do(true)
		e.Clock.Advance(time.Minute) // nobody holds the lease of the act any more
		do(false)
		if p := got(run.In(sp, nil).List(t.Context(), th.ID, nil))(t); len(p.Items) != 1 {
			t.Errorf("%d runs under one idempotency key, want 1", len(p.Items))
		}
	})
}

// An operation keeps its own count if an operation within it does not begin again.
func TestAnOperationWithinAnotherCountsAsOneCall(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		th := got(thread.In(sp).Create(t.Context(), nil))(t)
		for range 2 { // the second time the decision exists and its act is skipped
			ctx := thole.Operation(thole.WithIdempotencyKey(t.Context(), "k", "f"))
			_, err := decision.In(sp).Do(ctx, decision.Plan{Action: "ask"}, func(ctx context.Context) (any, error) {
				return kv.In(sp).Set(ctx, "n", "k", 1, nil)
			})
			if err = errors.Join(err, charge(ctx, sp, th.ID)); err != nil {
				t.Error(err)
			}
		}
		if p := got(run.In(sp, nil).List(t.Context(), th.ID, nil))(t); len(p.Items) != 1 {
			t.Errorf("%d runs under one idempotency key, want 1", len(p.Items))
		}
	})
}

func TestAKeyIsForOneCallAndNoOtherIsAcknowledgedUnderIt(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		th := got(thread.In(sp).Create(t.Context(), nil))(t)
		ctx := thole.WithIdempotencyKey(t.Context(), "k", "f")
		s := kv.In(sp)
		first := got(s.Set(ctx, "n", "a", 1, nil))(t)
		again := got(s.Set(ctx, "n", "a", 1, nil))(t)
		if again.Version != first.Version {
			t.Errorf("repeat: got version %v, want %v", again.Version, first.Version)
		}
		for name, call := range map[string]func() error{
			"kv, another key": func() error { _, err := s.Set(ctx, "n", "b", 2, nil); return err },
			"kv delete":       func() error { _, err := s.Delete(ctx, "n", "a", nil); return err },
			"todo":            func() error { _, err := todo.In(sp).Add(ctx, th.ID, todo.Todo{Content: "x"}); return err },
			"run":             func() error { return charge(ctx, sp, th.ID) },
			"lock":            func() error { _, err := lock.In(sp).Acquire(ctx, "f", nil); return err },
			"raw": func() error {
				_, err := sp.Commit(ctx, thole.Commit{Events: []thole.Event{{Stream: "app/x", Type: "app.x"}}})
				return err
			},
		} {
			var reused *thole.ReusedKeyError
			if err := call(); !errors.As(err, &reused) {
				t.Errorf("%s: got %v, want *ReusedKeyError", name, err)
			}
		}
	})
}

func TestALockIsTakenAnewForWhatIsRepeatedUnderIt(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		for range 2 {
			ctx := thole.WithIdempotencyKey(t.Context(), "k", "f")
			err := lock.In(sp).Do(ctx, "f", nil, func(ctx context.Context, sp *thole.Space) error {
				_, err := sp.Update(ctx, func(tx *thole.Tx) error { tx.Emit("app/x", "app.x", nil); return nil })
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		if p := got(sp.Read(t.Context(), thole.ReadQuery{Stream: "app/x"}))(t); len(p.Events) != 1 {
			t.Errorf("%d events under one idempotency key, want 1", len(p.Events))
		}
	})
}

func got[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

package statetest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
	"github.com/thole-dev/thole/state/todo"
)

// A thread's ttl counts from the last change of anything that belongs to it.
func TestAThreadLivesOnWhileSomethingIsWrittenBelowIt(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, sp := t.Context(), e.Space("project:shop").As("user:1")
		const ttl = 100 * time.Second
		for name, write := range map[string]func(id string, i int) error{
			"its state": func(id string, i int) error {
				_, err := document.Under(sp, thread.Key(id), thread.Key(id)).Put(ctx, "state", i, nil)
				return err
			},
			"its todos": func(id string, i int) error {
				_, err := todo.In(sp).Set(ctx, id, []todo.Todo{{Content: fmt.Sprint(i)}}, nil)
				return err
			},
			"an application's event": func(id string, i int) error {
				_, err := sp.Commit(ctx, thole.Commit{Events: []thole.Event{{Stream: "app/thread/" + id, Type: "a.b"}}})
				return err
			},
			"an application's record": func(id string, i int) error {
				_, err := sp.Commit(ctx, thole.Commit{Writes: []thole.Write{{Key: "app/thread/" + id + "/x", Value: []byte("1")}}})
				return err
			},
			"a message": func(id string, i int) error {
				_, err := thread.In(sp).Append(ctx, id, thread.Message{Role: "user", Blocks: []thread.Block{{Type: "text", Content: "more"}}}, nil)
				return err
			},
			"a run": func(id string, i int) error {
				_, err := run.In(sp, nil).Start(ctx, id, run.Request{Prompt: "more"})
				return err
			},
		} {
			th, err := thread.In(sp).Create(ctx, &thread.CreateOptions{TTL: ttl})
			must(t, "create", err)
			for i := range 30 {
				e.Clock.Advance(ttl / 10)
				if err := write(th.ID, i); err != nil {
					t.Fatalf("%s, for the %d. time, %v after the time before: %v", name, i+1, ttl/10, err)
				}
			}
			must(t, "sweep", e.Sweep(ctx))
			if _, err := thread.In(sp).Get(ctx, th.ID); err != nil {
				t.Errorf("%s was written just now: %v", name, err)
			}
			if name == "a run" { // while one is active, it does not expire
				continue
			}
			e.Clock.Advance(ttl - time.Second)
			must(t, "sweep", e.Sweep(ctx))
			if _, err := thread.In(sp).Get(ctx, th.ID); err != nil {
				t.Errorf("%s was written %v ago: %v", name, ttl-time.Second, err)
			}
			e.Clock.Advance(ttl/10 + 2*time.Second)
			must(t, "sweep", e.Sweep(ctx))
			if _, err := thread.In(sp).Get(ctx, th.ID); !errors.Is(err, thole.ErrNotFound) {
				t.Errorf("%s was written more than 1.1 ttl ago: got %v, want ErrNotFound", name, err)
			}
		}
	})
}

// Many writes in a short time move the end once.
func TestTheEndOfAThreadMovesOnceInATenthOfItsTTL(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, sp := t.Context(), e.Space("project:shop").As("user:1")
		th, err := thread.In(sp).Create(ctx, &thread.CreateOptions{TTL: 100 * time.Second})
		must(t, "create", err)
		versions := map[thole.Position]bool{}
		for i := range 50 {
			e.Clock.Advance(100 * time.Millisecond)
			_, err := document.Under(sp, thread.Key(th.ID), thread.Key(th.ID)).Put(ctx, "state", i, nil)
			must(t, "put", err)
			head, err := thread.In(sp).Get(ctx, th.ID)
			must(t, "get", err)
			versions[head.Version] = true
		}
		if len(versions) != 1 {
			t.Errorf("the head had %d versions in 5 s, want 1", len(versions))
		}
	})
}

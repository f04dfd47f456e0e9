package statetest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

// asBefore gives a record the value that a version without bounds on names wrote:
// member is set to a name that is not accepted any more.
func asBefore(t *testing.T, sp *thole.Space, key, member, name string) {
	t.Helper()
	_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
		value := make(map[string]any)
		if ok, err := tx.Load(key, &value); err != nil || !ok {
			t.Fatalf("record %s: %v, %v", key, ok, err)
		}
		value[member] = name
		tx.Put(key, value, nil)
		return nil
	})
	must(t, "write "+key, err)
}

func TestARunWithANameThatIsTooLongEndsAndLetsTheNextOneIn(t *testing.T) {
	name := strings.Repeat("n", 300)
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx := t.Context()
		sp := e.Space("project:shop")
		rs := run.In(sp, nil)
		for _, end := range []string{"finish", "cancel the first", "cancel the second", "crash", "destroy"} {
			t.Run(end, func(t *testing.T) {
				id := newThread(t, sp, thread.CreateOptions{Assistant: "coder"})
				start := func() string {
					r, err := rs.Start(ctx, id, run.Request{Prompt: "go"})
					must(t, "start", err)
					return r.ID
				}
				first, poisoned, last := start(), start(), start()
				asBefore(t, sp, "run/"+poisoned, "agent", name)
				h, err := rs.Claim(ctx, &run.ClaimOptions{Agent: "coder"})
				must(t, "claim", err)
				switch end {
				case "finish":
					_, err = h.Finish(ctx, run.Succeeded, "")
				case "cancel the first":
					_, err = rs.Cancel(ctx, first, run.ByUser)
					must(t, end, err)
					_, err = h.Finish(ctx, run.Succeeded, "")
				case "cancel the second":
					_, err = rs.Cancel(ctx, poisoned, run.ByUser)
					must(t, end, err)
					_, err = h.Finish(ctx, run.Succeeded, "")
				case "crash":
					e.Clock.Advance(time.Minute)
					err = e.Sweep(ctx)
				case "destroy":
					must(t, end, thread.In(sp).Destroy(ctx, id, nil))
					_, err = h.Finish(ctx, run.Succeeded, "")
				}
				must(t, end, err)
				if end == "destroy" {
					return
				}
				if r, err := rs.Get(ctx, poisoned); err != nil {
					t.Errorf("read the run: %v", err)
				} else if !r.Ended() { // no worker has such a name; a person must end it
					_, err = rs.Cancel(ctx, poisoned, run.ByUser)
					must(t, "take it out", err)
				}
				if h, err = rs.Claim(ctx, &run.ClaimOptions{Agent: "coder"}); err != nil || h.ID() != last {
					t.Fatalf("claim the next run: got %v, want %s", err, last)
				}
				_, err = h.Finish(ctx, run.Succeeded, "")
				must(t, "finish the next run", err)
			})
		}
	})
}

// A run whose worker is also its asker needs no record for finding it, so with such a
// name it could begin.
func TestAnActiveRunWithANameThatIsTooLongEnds(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx := t.Context()
		sp := e.Space("project:shop")
		rs := run.In(sp, nil)
		for _, end := range []string{"finish", "crash"} {
			id := newThread(t, sp, thread.CreateOptions{})
			r, err := rs.Start(ctx, id, run.Request{Prompt: "go"})
			must(t, "start", err)
			h, err := rs.Claim(ctx, nil)
			must(t, "claim", err)
			asBefore(t, sp, "run/"+r.ID, "agent", strings.Repeat("n", 300))
			if end == "crash" {
				e.Clock.Advance(time.Minute)
				must(t, "sweep", e.Sweep(ctx))
			} else {
				h, err = rs.Attach(ctx, r.ID, h.Fence())
				must(t, "attach", err, h.Text(ctx, "still here"))
				_, err = h.Finish(ctx, run.Succeeded, "")
				must(t, "finish", err)
			}
			if th, err := thread.In(sp).Get(ctx, id); err != nil || th.Status != thread.Idle {
				t.Errorf("%s: the thread: got %+v, %v; want it idle", end, th, err)
			}
		}
	})
}

func TestALockWhoseHoldersNameIsTooLongCanBeWaitedForAndFreed(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx := t.Context()
		sp := e.Space("project:shop")
		ls := lock.In(sp)
		l, err := ls.Acquire(ctx, "f", &lock.Options{Owner: "a"})
		must(t, "acquire", err)
		asBefore(t, sp, "lock/f/owner", "holder", strings.Repeat("n", 300))
		if _, err := ls.Acquire(ctx, "f", &lock.Options{Owner: "b", Wait: time.Millisecond}); !errors.As(err, new(*lock.HeldError)) {
			t.Errorf("wait: got %v, want to hear who has it", err)
		}
		if err := l.Renew(ctx); !errors.Is(err, thole.ErrFenced) { // its owner record was written again
			t.Errorf("renew: %v", err)
		}
		e.Clock.Advance(time.Hour)
		must(t, "sweep", e.Sweep(ctx))
		_, err = ls.Acquire(ctx, "f", &lock.Options{Owner: "b"})
		must(t, "acquire", err)
	})
}

func TestAHeadWithATooLongTitleOrAgentCanBeMended(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx := t.Context()
		sp := e.Space("project:shop")
		ts := thread.In(sp)
		id := newThread(t, sp, thread.CreateOptions{})
		asBefore(t, sp, thread.Key(id), "assistant", strings.Repeat("n", 300))
		asBefore(t, sp, thread.Key(id), "title", strings.Repeat("t", 10<<10))
		_, err := ts.Append(ctx, id, thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock("hi")}}, nil)
		must(t, "post", err)
		_, err = ts.Patch(ctx, id, thread.Patch{Metadata: map[string]json.RawMessage{"a": json.RawMessage("1")}}, nil)
		must(t, "patch something else", err)
		if _, err := run.In(sp, nil).Start(ctx, id, run.Request{Prompt: "go"}); !errors.Is(err, thole.ErrTooLarge) {
			t.Errorf("start a run of that agent: got %v, want ErrTooLarge", err)
		}
		_, err = run.In(sp, nil).Start(ctx, id, run.Request{Prompt: "go", Agent: "coder"})
		must(t, "start a run of another", err)
		agent, title := "coder", "short"
		_, err = ts.Patch(ctx, id, thread.Patch{Assistant: &agent, Title: &title}, nil)
		must(t, "patch both", err)
	})
}

package statetest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
	"github.com/thole-dev/thole/state/todo"
)

func nested(levels int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", levels) + strings.Repeat("]", levels))
}

// deepest calls enter with less and less nested JSON until enter accepts it.
func deepest(t *testing.T, what string, enter func(v json.RawMessage) error) {
	t.Helper()
	for levels := journal.MaxDepth + 2; levels > journal.MaxDepth-20; levels-- {
		err := enter(nested(levels))
		if err == nil {
			return
		}
		if !errors.Is(err, thole.ErrInvalid) {
			t.Fatalf("%s with %d levels: got %v, want ErrInvalid", what, levels, err)
		}
	}
	t.Fatalf("%s: not taken at all", what)
}

// However deep the JSON is that a record accepted, the records and events made from it
// have room for it.
func TestWhatARecordHoldsFitsIntoWhatIsMadeFromIt(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, sp := t.Context(), e.Space("project:shop")
		ts, rs := thread.In(sp), run.In(sp, nil)
		th, err := ts.Create(ctx, &thread.CreateOptions{Assistant: "coder"})
		must(t, "create", err)

		meta := func(v json.RawMessage) map[string]json.RawMessage { return map[string]json.RawMessage{"x": v} }
		deepest(t, "start a run", func(v json.RawMessage) error {
			_, err := rs.Start(ctx, th.ID, run.Request{Blocks: []thread.Block{{Type: thread.Text, Content: "x", Meta: meta(v)}}, Options: v})
			return err
		})
		h, err := rs.Claim(ctx, &run.ClaimOptions{Agent: "coder"})
		must(t, "claim", err)
		deepest(t, "signal", func(v json.RawMessage) error { return rs.Signal(ctx, h.ID(), "go", v) })
		for range 2 {
			_, err = h.Wait(thole.WithIdempotencyKey(ctx, "k", "f"), "go")
			must(t, "wait", err)
		}
		block, err := h.StartTool(ctx, "bash", nil, "")
		must(t, "start tool", err)
		deepest(t, "finish tool", func(v json.RawMessage) error {
			return h.FinishTool(ctx, block, thread.ToolResult{Result: v})
		})
		_, err = h.Finish(ctx, run.Failed, "it broke")
		must(t, "finish", err)
		_, err = rs.Resume(ctx, h.ID())
		must(t, "resume", err)
		_, err = rs.Claim(ctx, &run.ClaimOptions{Agent: "coder"})
		must(t, "claim again", err)

		ds := decision.In(sp)
		var dec decision.Decision
		deepest(t, "plan", func(v json.RawMessage) (err error) {
			dec, err = ds.Plan(ctx, decision.Plan{Action: "pay", Input: v})
			return err
		})
		_, err = ds.Resolve(ctx, dec.ID, decision.Unknown, nil)
		must(t, "resolve as unknown", err)
		deepest(t, "resolve", func(v json.RawMessage) error {
			_, err := ds.Resolve(ctx, dec.ID, decision.Done, v)
			return err
		})

		var ends []*thread.Thread
		for _, ttl := range []time.Duration{0, time.Minute} {
			deepest(t, "create a thread", func(v json.RawMessage) error {
				th, err := ts.Create(ctx, &thread.CreateOptions{Metadata: meta(v), TTL: ttl})
				if err == nil {
					ends = append(ends, th)
				}
				return err
			})
			id := ends[len(ends)-1].ID
			_, err := todo.In(sp).Add(ctx, id, todo.Todo{Content: "x"})
			must(t, "todos", err)
			deepest(t, "thread's state", func(v json.RawMessage) error {
				_, err := document.Under(sp, thread.Key(id), thread.Key(id)).Put(ctx, "state", v, nil)
				return err
			})
		}
		must(t, "destroy", ts.Destroy(ctx, ends[0].ID, nil))

		kvs := kv.In(sp)
		for _, key := range []string{"kept", "expires"} {
			deepest(t, "kv", func(v json.RawMessage) error {
				_, err := kvs.Set(ctx, "n", key, v, &kv.SetOptions{TTL: time.Minute})
				return err
			})
		}
		_, err = kvs.Delete(ctx, "n", "kept", nil)
		must(t, "delete from kv", err)
		deepest(t, "app", func(v json.RawMessage) error {
			_, err := sp.Update(ctx, func(tx *thole.Tx) error {
				tx.Put("app/x", v, &thole.WriteOptions{Expires: tx.Now().Add(time.Minute), Notify: true})
				tx.Put("app/x/below", v, nil)
				return nil
			})
			return err
		})

		e.Clock.Advance(time.Hour)
		must(t, "sweep", e.Sweep(ctx))
		for _, typ := range []string{"thread.destroyed", "thread.expired", "kv.expired", "app.expired"} {
			p, err := sp.Read(ctx, thole.ReadQuery{Types: []string{typ}})
			must(t, "read", err)
			if len(p.Events) != 1 {
				t.Errorf("%s: %d times, want once", typ, len(p.Events))
			}
		}
		for _, th := range ends {
			recs, err := sp.List(ctx, thole.ListQuery{Prefix: thread.Key(th.ID) + "/"})
			must(t, "list", err)
			if len(recs) > 0 {
				t.Errorf("the thread is gone, but %s is left", recs[0].Key)
			}
		}
	})
}

// What an earlier version, or a person, wrote below a thread's key ends with the
// thread.
func TestAThreadThatNobodyCanReadEndsWithAllBelowIt(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, sp := t.Context(), e.Space("project:shop")
		ts := thread.In(sp)
		var ids []string
		for range 2 {
			th, err := ts.Create(ctx, nil)
			must(t, "create", err)
			_, err = todo.In(sp).Add(ctx, th.ID, todo.Todo{Content: "x"})
			must(t, "todos", err)
			_, err = sp.Update(ctx, func(tx *thole.Tx) error {
				tx.Put(thread.Key(th.ID), "unreadable", &thole.WriteOptions{Expires: tx.Now().Add(time.Minute), Notify: true})
				return nil
			})
			must(t, "spoil", err)
			ids = append(ids, th.ID)
		}
		must(t, "destroy", ts.Destroy(ctx, ids[0], nil))
		e.Clock.Advance(time.Hour)
		must(t, "sweep", e.Sweep(ctx))
		recs, err := sp.List(ctx, thole.ListQuery{Prefix: "thread/"})
		must(t, "list", err)
		if len(recs) > 0 {
			t.Errorf("%s is left", recs[0].Key)
		}
		p, err := sp.Read(ctx, thole.ReadQuery{Types: []string{"thread.destroyed", "thread.expired"}})
		must(t, "read", err)
		if len(p.Events) != 2 {
			t.Errorf("got %d events of their ends, want 2", len(p.Events))
		}
	})
}

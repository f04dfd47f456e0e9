package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

func (b *bench) destroy() {
	b.t.Helper()
	if err := b.ts.Destroy(b.t.Context(), b.id, nil); err != nil {
		b.t.Fatalf("destroy: %v", err)
	}
}

func (b *bench) sweep() {
	b.t.Helper()
	if err := b.e.Sweep(b.t.Context()); err != nil {
		b.t.Fatalf("sweep: %v", err)
	}
}

func TestEveryMethodOfAHandleSaysThatTheThreadIsGone(t *testing.T) {
	each(t, func(b *bench) {
		r := b.start("go", run.Request{})
		h := b.claim()
		block, err := h.StartTool(t.Context(), "T", nil, "")
		if err != nil {
			t.Fatal(err)
		}
		b.destroy()
		for name, call := range map[string]func(context.Context) error{
			"Text":      func(ctx context.Context) error { return h.Text(ctx, "x") },
			"Reasoning": func(ctx context.Context) error { return h.Reasoning(ctx, "x") },
			"Flush":     h.Flush,
			"Append": func(ctx context.Context) error {
				return h.Append(ctx, thread.Delta{Block: thole.NewID("blk"), Text: "x"})
			},
			"Block":      func(ctx context.Context) error { _, err := h.Block(ctx, thread.TextBlock("x")); return err },
			"StartTool":  func(ctx context.Context) error { _, err := h.StartTool(ctx, "T", nil, ""); return err },
			"FinishTool": func(ctx context.Context) error { return h.FinishTool(ctx, block, thread.ToolResult{}) },
			"SetModel":   func(ctx context.Context) error { return h.SetModel(ctx, "m") },
			"Heartbeat":  h.Heartbeat,
			"Wait":       func(ctx context.Context) error { _, err := h.Wait(ctx, "x"); return err },
			"Update": func(ctx context.Context) error {
				_, err := h.Update(ctx, func(tx *thole.Tx) error { tx.Put("app/x", 1, nil); return nil })
				return err
			},
		} {
			if err := call(t.Context()); !errors.Is(err, thole.ErrNotFound) {
				t.Errorf("%s: got %v, want ErrNotFound", name, err)
			}
		}
		if err := h.AddUsage(t.Context(), "m", run.Usage{OutputTokens: 1}); err != nil {
			t.Errorf("AddUsage: %v", err)
		}
		ended, err := h.Finish(t.Context(), run.Succeeded, "")
		if err != nil || ended.Status != run.Cancelled || ended.Cancel == nil || ended.Cancel.Cause != run.BySuperseded || ended.Total().OutputTokens != 1 {
			t.Errorf("finish: got %+v, %v; want it cancelled", ended, err)
		}
		b.status(r.ID, run.Cancelled)
	})
}

func TestARunWhoseTextIsLostWithItsThreadDidNotSucceed(t *testing.T) {
	each(t, func(b *bench) {
		var id string
		err := b.rs.Do(t.Context(), b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
			id = h.ID()
			if err := h.Text(ctx, "lost"); err != nil {
				return err
			}
			b.destroy()
			<-ctx.Done() // the cancel has arrived
			if err := h.Text(ctx, "lost too"); !errors.Is(err, thole.ErrNotFound) {
				t.Errorf("text: got %v, want ErrNotFound", err)
			}
			return nil
		})
		if !errors.Is(err, thole.ErrNotFound) || !errors.Is(err, thole.ErrCancelled) {
			t.Errorf("got %v, want a run that is cancelled as its thread is gone", err)
		}
		if r := b.status(id, run.Cancelled); r.Cancel == nil {
			t.Errorf("got %+v, want a cause", r)
		}
	})
}

func TestRunsThatWaitInADestroyedThreadAreCancelledByTheSweep(t *testing.T) {
	each(t, func(b *bench) {
		var ids [2]string // two threads of an owner who may have one active run
		for i := range ids {
			th, err := b.ts.Create(t.Context(), &thread.CreateOptions{Assistant: "coder", Owner: "user:1", RunScope: thread.PerUser})
			if err != nil {
				t.Fatal(err)
			}
			ids[i] = th.ID
		}
		b.id = ids[0]
		active := b.start("at work", run.Request{})
		h := b.claim()
		b.id = ids[1]
		var waiting []string
		for i := range 30 {
			waiting = append(waiting, b.start(fmt.Sprint("behind ", i), run.Request{}).ID)
		}
		b.id = ids[0]
		next := b.start("next", run.Request{})
		b.id = ids[1]
		b.destroy()
		statetest.AtEachCut(func(cut statetest.Cut) bool { // wherever the sweep dies
			died := b.e.DieAt(cut)
			b.open()
			_ = b.e.Sweep(t.Context())
			dead := died()
			b.reopen()
			return dead
		})
		b.sweep()
		for _, id := range waiting {
			rec, err := b.sp.Get(t.Context(), "run/"+id) // the stored record: Runs.Get would end the run
			var r run.Run
			if err == nil {
				err = json.Unmarshal(rec.Value, &r)
			}
			if err != nil || r.Status != run.Cancelled || r.Cancel == nil {
				t.Errorf("a run that waits: got %s, %v; want cancelled", r.Status, err)
			}
		}
		b.status(active.ID, run.Running)
		b.status(next.ID, run.Queued)
		b.id = ids[0]
		b.destroy()
		b.sweep()
		if r := b.status(active.ID, run.Running); r.Cancel == nil || r.Cancel.Cause != run.BySuperseded {
			t.Errorf("the active run: got %+v, want it asked to end", r.Cancel)
		}
		if _, err := b.attach(h).Finish(t.Context(), run.Succeeded, ""); err != nil {
			t.Fatal(err)
		}
		b.status(active.ID, run.Cancelled)
		b.status(next.ID, run.Cancelled)
	})
}

func TestATreeOfRunsIsCancelledWhereverTheProcessDies(t *testing.T) {
	effort.SlowUnderRace(t)
	const children = 25 // ending them takes several commits
	each(t, func(b *bench) {
		statetest.AtEachCut(func(cut statetest.Cut) bool {
			root := b.start("root", run.Request{})
			b.claim()
			ids := []string{root.ID}
			for range children {
				r, err := b.rs.Start(t.Context(), "", run.Request{Prompt: "sub", Agent: "sub", Parent: root.ID})
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, r.ID)
			}
			died := b.e.DieAt(cut)
			b.open()
			_, err := b.rs.Cancel(t.Context(), root.ID, run.ByUser)
			dead := died()
			if dead != (err != nil) {
				t.Errorf("%+v: dead %v, got %v", cut, dead, err)
			}
			b.reopen()
			b.e.Clock.Advance(6 * time.Second)
			b.sweep()
			if got := b.status(root.ID, run.Running); got.Cancel == nil { // the first commit was not applied
				if cut != (statetest.Cut{Commit: 1}) {
					t.Errorf("%+v: the root is not cancelled", cut)
				}
				if _, err := b.rs.Cancel(t.Context(), root.ID, run.ByUser); err != nil {
					t.Fatal(err)
				}
			}
			for _, id := range ids[1:] {
				if r := b.status(id, run.Cancelled); r.Status != run.Cancelled {
					t.Fatalf("%+v: a run of the tree goes on", cut)
				}
			}
			b.e.Clock.Advance(time.Hour) // the root's worker is dead
			b.sweep()
			return dead
		})
	})
}

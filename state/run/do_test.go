package run_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

func TestDoEndsTheRunAsItsFunctionDid(t *testing.T) {
	each(t, func(b *bench) {
		ctx := t.Context()
		broken := errors.New("no such file")
		var ids []string
		do := func(fn func(context.Context, *run.Handle) error) error {
			return b.rs.Do(ctx, b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
				ids = append(ids, h.ID())
				return fn(ctx, h)
			})
		}
		if err := do(func(ctx context.Context, h *run.Handle) error { return h.Text(ctx, "fine") }); err != nil {
			t.Error(err)
		}
		if err := do(func(ctx context.Context, h *run.Handle) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("failure: got %v", err)
		}
		var p *run.PanicError
		if err := do(func(ctx context.Context, h *run.Handle) error { panic("oh") }); !errors.As(err, &p) || p.Value != "oh" {
			t.Errorf("panic: got %v", err)
		}
		var c *run.CancelledError
		if err := do(func(ctx context.Context, h *run.Handle) error { return &run.CancelledError{Cause: run.ByCredits} }); !errors.As(err, &c) || c.Cause != run.ByCredits {
			t.Errorf("self-abort: got %v", err)
		}
		for i, want := range []string{run.Succeeded, run.Failed, run.Failed, run.Cancelled} {
			b.status(ids[i], want)
		}
		if got, want := b.said(), "u:go a:fine u:go a:no such file u:go a:panic: oh u:go"; got != want {
			t.Errorf("history: got %q, want %q", got, want)
		}
		if th := b.head(); th.Status != thread.Idle {
			t.Errorf("thread: got %s, want idle", th.Status)
		}
	})
}

func TestACancelReachesTheWorkAndKeepsWhatWasStreamed(t *testing.T) {
	each(t, func(b *bench) {
		var id string
		err := b.rs.Do(t.Context(), b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
			id = h.ID()
			if err := h.Text(ctx, "half a sen"); err != nil {
				return err
			}
			child := make(chan error, 1)
			go func() {
				child <- b.rs.Do(context.WithoutCancel(ctx), "", run.Request{Prompt: "sub", Parent: h.ID()}, func(ctx context.Context, _ *run.Handle) error {
					if _, err := b.rs.Cancel(context.WithoutCancel(ctx), id, run.ByUser); err != nil {
						return err
					}
					<-ctx.Done()
					return nil // a late success does not count
				})
			}()
			<-ctx.Done()
			var c *run.CancelledError
			if cause := context.Cause(ctx); !errors.As(cause, &c) || c.Cause != run.ByUser {
				t.Errorf("cause: got %v, want cancelled by user", cause)
			}
			if err := <-child; !errors.As(err, &c) || c.Cause != run.ByUser {
				t.Errorf("sub-agent: got %v, want cancelled by user", err)
			}
			if _, err := h.StartTool(context.WithoutCancel(ctx), "Bash", nil, ""); !errors.Is(err, thole.ErrCancelled) {
				t.Errorf("tool after cancel: got %v, want ErrCancelled", err)
			}
			return h.Text(context.WithoutCancel(ctx), "tence")
		})
		if !errors.Is(err, thole.ErrCancelled) {
			t.Errorf("Do: got %v, want ErrCancelled", err)
		}
		b.status(id, run.Cancelled)
		if got, want := b.said(), "u:go a:half a sentence"; got != want {
			t.Errorf("history: got %q, want %q", got, want)
		}
	})
}

func TestTheEndOfTheCallersContextCancelsTheRun(t *testing.T) {
	each(t, func(b *bench) {
		for cause, end := range map[string]error{run.ByDisconnect: nil, run.ByCredits: &run.CancelledError{Cause: run.ByCredits}} {
			ctx, cancel := context.WithCancelCause(t.Context())
			var id string
			err := b.rs.Do(ctx, b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
				id = h.ID()
				cancel(end)
				<-ctx.Done()
				return ctx.Err()
			})
			var c *run.CancelledError
			if !errors.As(err, &c) || c.Cause != cause {
				t.Errorf("got %v, want cancelled by %s", err, cause)
			}
			b.status(id, run.Cancelled)
		}
	})
}

// do runs fn in the bench's thread and returns how the run ended.
func (b *bench) do(ctx context.Context, prompt string, fn func(context.Context, *run.Handle) error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- b.rs.Do(ctx, b.id, run.Request{Prompt: prompt}, fn) }()
	return ended
}

// waits is do for a run behind an active one; it returns when the run is queued.
func (b *bench) waits(ctx context.Context, prompt string, fn func(context.Context, *run.Handle) error) <-chan error {
	b.t.Helper()
	w, err := b.sp.Watch(ctx, &thole.WatchOptions{Types: []string{"run.queued"}})
	if err != nil {
		b.t.Fatal(err)
	}
	defer w.Close()
	ended := b.do(ctx, prompt, fn)
	if _, err := w.Next(ctx); err != nil {
		b.t.Fatal(err)
	}
	return ended
}

func TestDoWaitsItsTurn(t *testing.T) {
	each(t, func(b *bench) {
		var active, most, ran atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				err := b.rs.Do(t.Context(), b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
					most.Store(max(most.Load(), active.Add(1)))
					defer active.Add(-1)
					ran.Add(1)
					return h.Text(ctx, "ok")
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most.Load() != 1 || ran.Load() != 8 {
			t.Errorf("got %d at once, %d in all; want 1, 8", most.Load(), ran.Load())
		}
		if got, want := b.said(), strings.TrimSpace(strings.Repeat("u:go a:ok ", 8)); got != want {
			t.Errorf("history: got %q, want %q", got, want)
		}
		if q, err := b.rs.Queue(t.Context(), b.id); err != nil || len(q) != 0 {
			t.Errorf("queue: got %d (%v), want none", len(q), err)
		}
	})
}

func TestAQueuedDoEndsWithItsContext(t *testing.T) {
	each(t, func(b *bench) {
		b.start("one", run.Request{})
		h := b.claim()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := b.waits(ctx, "two", func(context.Context, *run.Handle) error {
			t.Error("it ran")
			return nil
		})
		cancel()
		if err := <-ended; !errors.Is(err, thole.ErrCancelled) {
			t.Errorf("got %v, want ErrCancelled", err)
		}
		b.finish(h)
		if th := b.head(); th.ActiveRun != "" {
			t.Errorf("active: got %s, want none", th.ActiveRun)
		}
	})
}

func TestAReservedRunWhoseProcessDiedGivesWay(t *testing.T) {
	each(t, func(b *bench) {
		b.start("one", run.Request{})
		h := b.claim()
		// If a process dies while its run is queued, the queued run is never renewed.
		ended := b.waits(t.Context(), "two", func(context.Context, *run.Handle) error { return nil })
		three := b.start("three", run.Request{})
		for range 2 {
			b.e.Clock.Advance(20 * time.Second)
			if err := h.Heartbeat(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.finish(h)
		if h := b.claim(); h.ID() != three.ID {
			t.Errorf("claimed %s, want the run behind the dead one", h.ID())
		}
		if err := <-ended; err == nil {
			t.Error("the dead run's Do succeeded")
		}
	})
}

func TestTextIsCommittedInFewChunksAndBroadcastAtTheSameOffsets(t *testing.T) {
	each(t, func(b *bench) {
		w, err := b.sp.Watch(t.Context(), &thole.WatchOptions{Types: []string{"message.delta"}})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		const n = 1200 // if more wait for a slow read of the store, the broadcasts may be dropped
		want := strings.Repeat("wört ", n)
		rs := run.In(b.sp, &run.Options{Flush: time.Hour}) // chunks by size alone
		err = rs.Do(t.Context(), b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
			for range n {
				if err := h.Text(ctx, "wört "); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var live, kept strings.Builder
		commits := 0
		for kept.Len() < len(want) {
			ds, err := w.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range ds {
				var x thread.Delta
				if err := d.As(&x); err != nil {
					t.Fatal(err)
				}
				out := &live
				if !d.IsBroadcast() {
					out = &kept
					commits++
				}
				if x.Offset != out.Len() {
					t.Fatalf("offset: got %d, want %d (broadcast %v)", x.Offset, out.Len(), d.IsBroadcast())
				}
				out.WriteString(x.Text)
			}
		}
		if live.String() != want || kept.String() != want {
			t.Errorf("got %d bytes live and %d kept, want %d", live.Len(), kept.Len(), len(want))
		}
		if commits > len(want)/4096+1 {
			t.Errorf("got %d commits for %d bytes", commits, len(want))
		}
		if got := b.said(); got != "u:go a:"+want {
			t.Errorf("history differs: %d bytes, want %d", len(got), len(want)+7)
		}
	})
}

func TestStreamedTextIsDurableSoonWithoutAnotherCall(t *testing.T) {
	each(t, func(b *bench) {
		w, err := b.sp.Watch(t.Context(), &thole.WatchOptions{Types: []string{"message.delta"}, Durable: true})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		err = b.rs.Do(t.Context(), b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
			if err := h.Text(ctx, "a few bytes"); err != nil {
				return err
			}
			_, err := w.Next(ctx) // the loop commits it while the model is silent
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestTextAndToolsKeepTheirOrder(t *testing.T) {
	each(t, func(b *bench) {
		err := b.rs.Do(t.Context(), b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
			for i := range 3 {
				if err := errors.Join(h.Reasoning(ctx, fmt.Sprint("hm", i)), h.Text(ctx, fmt.Sprint("say", i))); err != nil {
					return err
				}
				block, err := h.StartTool(ctx, "T", nil, "")
				if err != nil {
					return err
				}
				if err := h.FinishTool(ctx, block, thread.ToolResult{Failed: i == 1}); err != nil {
					return err
				}
			}
			return h.Text(ctx, "end")
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := b.said(), "u:go a:hm0 a:say0 a:T=done a:hm1 a:say1 a:T=error a:hm2 a:say2 a:T=done a:end"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestARunWaitsForASignal(t *testing.T) {
	each(t, func(b *bench) {
		w, err := b.sp.Watch(t.Context(), &thole.WatchOptions{Types: []string{"run.waiting"}})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		got := make(chan string, 3)
		ended := make(chan error, 1)
		go func() {
			ended <- b.rs.Do(t.Context(), b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
				for range 2 {
					data, err := h.Wait(ctx, "approval/1")
					if err != nil {
						return err
					}
					got <- string(data)
				}
				_, err := h.Wait(ctx, "never")
				return err
			})
		}()
		var id string
		for i := range 2 {
			ds, err := w.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var e run.WaitingData
			if err := ds[0].As(&e); err != nil || e.Signal != "approval/1" {
				t.Fatalf("waiting: got %+v (%v)", e, err)
			}
			id = e.Run
			b.status(id, run.Waiting)
			if th := b.head(); th.Status != thread.Waiting {
				t.Errorf("thread: got %s, want waiting", th.Status)
			}
			if err := b.rs.Signal(t.Context(), id, "approval/1", fmt.Appendf(nil, `{"n":%d}`, i)); err != nil {
				t.Fatal(err)
			}
			if g, want := <-got, fmt.Sprintf(`{"n":%d}`, i); g != want {
				t.Errorf("data: got %s, want %s", g, want)
			}
		}
		if _, err := w.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.rs.Cancel(t.Context(), id, run.ByUser); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, thole.ErrCancelled) {
			t.Errorf("a cancelled wait: got %v, want ErrCancelled", err)
		}
		if err := b.rs.Signal(t.Context(), id, "x", nil); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("signal to an ended run: got %v, want ErrConflict", err)
		}
	})
}

func TestAReplacedWorkerIsStopped(t *testing.T) {
	for name, work := range map[string]func(ctx context.Context) error{
		"it works on":             func(ctx context.Context) error { <-ctx.Done(); return nil },
		"it returns before it is": func(context.Context) error { return nil },
		"it fails before it is":   func(context.Context) error { return errors.New("no more") },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(b *bench) {
				err := b.rs.Do(t.Context(), b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
					b.e.Clock.Advance(time.Minute) // it was paused, and the others take it for dead
					if err := b.e.Sweep(ctx); err != nil {
						return err
					}
					return work(ctx)
				})
				if !errors.Is(err, thole.ErrFenced) || errors.Is(err, thole.ErrConflict) {
					t.Errorf("got %v, want ErrFenced", err)
				}
				list, err := b.rs.List(t.Context(), b.id, nil)
				if err != nil || list.Items[0].Status != run.Crashed {
					t.Errorf("run: got %+v (%v), want crashed", list.Items, err)
				}
			})
		})
	}
}

// Whoever removes a slot lets another run take the turn, but nobody else has this one.
func TestARunThatLostItsTurnReturnsWhatItsWorkSays(t *testing.T) {
	each(t, func(b *bench) {
		mine := errors.New("mine")
		err := b.rs.Do(t.Context(), b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
			if _, err := b.sp.Update(ctx, func(tx *thole.Tx) error { tx.Delete("slot/%/" + b.id); return nil }); err != nil {
				return err
			}
			b.start("second", run.Request{})
			return mine
		})
		if !errors.Is(err, mine) || errors.Is(err, thole.ErrFenced) {
			t.Errorf("got %v, want the work's own error", err)
		}
	})
}

func TestAWorkerWhoseThreadIsDestroyedEnds(t *testing.T) {
	each(t, func(b *bench) {
		var id string
		err := b.rs.Do(t.Context(), b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
			id = h.ID()
			if err := h.Text(ctx, "lost"); err != nil {
				return err
			}
			if err := b.ts.Destroy(ctx, b.id, nil); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
		if r := b.status(id, run.Cancelled); r.Cancel == nil || r.Cancel.Cause != run.BySuperseded {
			t.Errorf("cancel: got %+v, want it superseded", r.Cancel)
		}
		b.e.Clock.Advance(10 * time.Second) // its context ended with the thread, perhaps before Destroy returned
		b.sweep()
		if recs, err := b.sp.List(t.Context(), thole.ListQuery{Prefix: "thread/"}); err != nil || len(recs) != 0 {
			t.Errorf("left behind: %v (%v)", recs, err)
		}
	})
}

func TestClaimWaitsForARun(t *testing.T) {
	each(t, func(b *bench) {
		got := make(chan *run.Handle, 1)
		go func() {
			h, err := b.rs.Claim(t.Context(), &run.ClaimOptions{Agent: "coder", Wait: time.Minute})
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		r := b.start("hello", run.Request{})
		h := <-got
		if h == nil || h.ID() != r.ID || h.Request()[0].Content != "hello" {
			t.Fatalf("claimed %+v, want %s", h, r.ID)
		}
		if err := h.Do(t.Context(), func(ctx context.Context, h *run.Handle) error { return h.Text(ctx, "hi") }); err != nil {
			t.Fatal(err)
		}
		b.status(r.ID, run.Succeeded)
		if _, err := b.rs.Claim(t.Context(), &run.ClaimOptions{Agent: "coder", Wait: time.Millisecond}); !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("claim of nothing: got %v, want ErrNotFound", err)
		}
	})
}

func TestDrainWaitsThenCancelsByShutdown(t *testing.T) {
	each(t, func(b *bench) {
		var g run.Group
		rs := run.In(b.sp, &run.Options{Group: &g})
		at := make(chan string, 1)
		ended := make(chan error, 1)
		go func() {
			ended <- rs.Do(t.Context(), b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
				at <- h.ID()
				<-ctx.Done()
				return nil
			})
		}()
		id := <-at
		patience, cancel := context.WithCancel(t.Context())
		cancel()
		g.Drain(patience)
		var c *run.CancelledError
		if err := <-ended; !errors.As(err, &c) || c.Cause != run.ByShutdown {
			t.Errorf("got %v, want cancelled by shutdown", err)
		}
		b.status(id, run.Cancelled)
		if err := rs.Do(t.Context(), b.id, run.Request{}, nil); !errors.Is(err, thole.ErrClosed) {
			t.Errorf("Do while draining: got %v, want ErrClosed", err)
		}
		if _, err := rs.Claim(t.Context(), nil); !errors.Is(err, thole.ErrClosed) {
			t.Errorf("Claim while draining: got %v, want ErrClosed", err)
		}
	})
}

func TestEveryRunEndsExactlyOnce(t *testing.T) {
	each(t, func(b *bench) {
		for range 20 {
			b.start("x", run.Request{})
			h := b.claim()
			var wg sync.WaitGroup
			for i := range 6 {
				wg.Go(func() {
					var err error
					if i%2 == 0 {
						_, err = h.Finish(t.Context(), []string{run.Succeeded, run.Failed}[i/2%2], "")
					} else {
						_, err = b.rs.Cancel(t.Context(), h.ID(), run.ByUser)
					}
					if err != nil && !errors.Is(err, thole.ErrConflict) && !errors.Is(err, thole.ErrFenced) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		got := b.events()
		if n := len(slices.DeleteFunc(got, func(s string) bool { return s != "finished" })); n != 20 {
			t.Errorf("run.finished: got %d, want 20", n)
		}
	})
}

// A call is repeated under its key because its answer was lost: it starts no second run
// and returns the result of the first.
func TestDoUnderAnIdempotencyKeyMakesOneRun(t *testing.T) {
	each(t, func(b *bench) {
		calls := 0
		again := func(key string, end error) (first, second error) {
			do := func() error {
				return b.rs.Do(thole.WithIdempotencyKey(t.Context(), key, "f"), b.id, run.Request{Prompt: key}, func(ctx context.Context, h *run.Handle) error {
					calls++
					return errors.Join(h.Text(ctx, "said"), end)
				})
			}
			first = do()
			b.reopen()
			return first, do()
		}
		if first, second := again("well", nil); first != nil || second != nil {
			t.Errorf("a run that succeeds: got %v, then %v", first, second)
		}
		if first, second := again("badly", errors.New("no such file")); second == nil || !strings.Contains(second.Error(), first.Error()) {
			t.Errorf("a run that fails: got %v, then %v", first, second)
		}
		var c *run.CancelledError
		if _, second := again("not", &run.CancelledError{Cause: run.ByCredits}); !errors.As(second, &c) || c.Cause != run.ByCredits {
			t.Errorf("a run that is cancelled: got %v", second)
		}
		if calls != 3 {
			t.Errorf("the work was done %d times, want 3", calls)
		}
		if page, err := b.rs.List(t.Context(), b.id, nil); err != nil || len(page.Items) != 3 {
			t.Errorf("%d runs, %v; want 3", len(page.Items), err)
		}

		ctx := thole.WithIdempotencyKey(t.Context(), "within", "f")
		err := b.rs.Do(ctx, b.id, run.Request{Prompt: "x"}, func(_ context.Context, h *run.Handle) error {
			return b.rs.Do(ctx, b.id, run.Request{Prompt: "x"}, func(context.Context, *run.Handle) error {
				t.Error("the work was begun twice")
				return nil
			})
		})
		if !errors.Is(err, thole.ErrConflict) {
			t.Errorf("while the first is under way: got %v, want ErrConflict", err)
		}
		if _, err := b.rs.Start(ctx, b.id, run.Request{Prompt: "x"}); !errors.As(err, new(*thole.ReusedKeyError)) {
			t.Errorf("another operation under the key: got %v, want *ReusedKeyError", err)
		}

		release := make(chan struct{}) // the same for a run that first waits in the queue
		running := make(chan struct{})
		other := b.do(t.Context(), "first", func(context.Context, *run.Handle) error { close(running); <-release; return nil })
		<-running
		queued := thole.WithIdempotencyKey(t.Context(), "queued", "f")
		did := make(chan error, 1)
		go func() {
			did <- b.rs.Do(queued, b.id, run.Request{Prompt: "second"}, func(context.Context, *run.Handle) error { return nil })
		}()
		close(release)
		if err := errors.Join(<-other, <-did); err != nil {
			t.Error(err)
		}
		if err := b.rs.Do(queued, b.id, run.Request{Prompt: "second"}, nil); err != nil { // nil would panic
			t.Errorf("repeated: %v", err)
		}
	})
}

func TestAHandleRefusesAKeyThatItCannotHonour(t *testing.T) {
	each(t, func(b *bench) {
		b.start("go", run.Request{})
		h := b.claim()
		ctx := thole.WithIdempotencyKey(t.Context(), "k", "f")
		for name, err := range map[string]error{
			"Do":        h.Do(ctx, func(context.Context, *run.Handle) error { t.Error("it was begun"); return nil }),
			"Text":      h.Text(ctx, "x"),
			"Reasoning": h.Reasoning(ctx, "x"),
		} {
			if !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("%s: got %v, want ErrInvalid", name, err)
			}
		}
		if err := h.Do(t.Context(), func(ctx context.Context, h *run.Handle) error { return h.Text(ctx, "hi") }); err != nil {
			t.Errorf("without a key: %v", err)
		}
		if got, want := b.said(), "u:go a:hi"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

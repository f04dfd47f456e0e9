package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

func TestMuchTextAtOnceDoesNotKeepARunFromEnding(t *testing.T) {
	each(t, func(b *bench) {
		ctx := t.Context()
		much := strings.Repeat("0123456789abcdef", 5<<20/16)
		b.start("go", run.Request{})
		h := b.claim()
		if err := h.Text(ctx, much); err != nil {
			t.Fatalf("5 MiB of text: %v", err)
		}
		b.finish(h)
		if got := b.said(); got != "u:go a:"+much {
			t.Errorf("history: got %d bytes", len(got))
		}
	})
}

func TestManySmallBlocksOfTextFitIntoCommits(t *testing.T) {
	each(t, func(b *bench) {
		want := "u:go"
		err := b.rs.Do(t.Context(), b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
			for range 200 {
				if err := errors.Join(h.Text(ctx, "a"), h.Reasoning(ctx, "b")); err != nil {
					return err
				}
				want += " a:a a:b"
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.said(); got != want {
			t.Errorf("history: got %.60q… (%d), want %d", got, len(got), len(want))
		}
	})
}

func TestARunEndsHoweverLongItsError(t *testing.T) {
	each(t, func(b *bench) {
		var id string
		long := errors.New(strings.Repeat("é", 300<<10))
		err := b.rs.Do(t.Context(), b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
			id = h.ID()
			return long
		})
		if !errors.Is(err, long) {
			t.Errorf("got %.80v", err)
		}
		b.status(id, run.Failed)
		b.rs.Do(t.Context(), b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
			id = h.ID()
			return errors.New("not UTF-8: \xff")
		})
		b.status(id, run.Failed)
	})
}

// hesitant calls before, once, when it commits.
type hesitant struct {
	*memstore.Store
	before atomic.Pointer[func(batch []thole.Commit)]
}

func (h *hesitant) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	if f := h.before.Load(); f != nil {
		(*f)(batch)
	}
	return h.Store.Commit(ctx, batch)
}

func TestARunThatBeginsAsItsCallerLeavesIsCancelled(t *testing.T) {
	for _, queued := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := &hesitant{Store: memstore.New()}
			b := onMemory(t, f)
			var first *run.Handle
			if queued {
				b.start("first", run.Request{})
				first = b.claim()
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			left := make(chan struct{})
			leave := func(batch []thole.Commit) {
				for _, c := range batch {
					for _, e := range c.Events {
						if e.Type == "run.started" {
							f.before.Store(nil)
							cancel()
							synctest.Wait() // until the caller has noticed
							close(left)
						}
					}
				}
			}
			f.before.Store(&leave)
			done := b.do(ctx, "go", func(ctx context.Context, _ *run.Handle) error {
				<-ctx.Done()
				return nil
			})
			if queued {
				synctest.Wait() // until it waits in the queue
				b.finish(first)
			}
			if err := <-done; !errors.Is(err, thole.ErrCancelled) {
				t.Errorf("queued %v: got %v, want cancelled", queued, err)
			}
			<-left
			synctest.Wait() // for a commit that nobody waits for
			all, err := b.rs.List(t.Context(), b.id, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r := all.Items[len(all.Items)-1]; r.Status != run.Cancelled {
				t.Errorf("queued %v: got %s, want cancelled", queued, r.Status)
			}
		})
	}
}

// onMemory returns a bench on the given backend.
func onMemory(t *testing.T, backend journal.Backend) *bench {
	t.Helper()
	s, err := thole.Open(t.Context(), backend, &thole.Options{Concepts: []*thole.Concept{run.Concept}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	b := &bench{t: t, sp: s.Space("project:shop")}
	b.rs, b.ts = run.In(b.sp, nil), thread.In(b.sp)
	th, err := b.ts.Create(t.Context(), &thread.CreateOptions{Assistant: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	b.id = th.ID
	return b
}

// forgetful applies a commit and then returns an error of unknown outcome.
type forgetful struct {
	*memstore.Store
	next atomic.Bool
}

func (f *forgetful) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	res, err := f.Store.Commit(ctx, batch)
	if f.next.CompareAndSwap(true, false) {
		return nil, errors.New("the answer was lost")
	}
	return res, err
}

func TestTextAfterACommitWhoseAnswerWasLost(t *testing.T) {
	ctx := t.Context()
	f := &forgetful{Store: memstore.New()}
	b := onMemory(t, f)
	b.start("go", run.Request{})
	h := b.claim()
	if err := h.Text(ctx, "before"); err != nil {
		t.Fatal(err)
	}
	f.next.Store(true)
	if _, err := h.StartTool(ctx, "Bash", nil, ""); err == nil {
		t.Fatal("the answer was not lost")
	}
	if err := errors.Join(h.Text(ctx, "after"), h.Text(ctx, "wards")); err != nil {
		t.Error(err)
	}
	f.next.Store(true)
	if err := h.Text(ctx, ", and on"); err == nil {
		t.Fatal("the answer was not lost")
	}
	if err := h.Text(ctx, " and on"); err != nil {
		t.Error(err)
	}
	b.finish(h)
	if got, want := b.said(), "u:go a:before a:Bash=interrupted a:afterwards, and on and on"; got != want {
		t.Errorf("history: got %q, want %q", got, want)
	}
}

func TestWhatStartsCanBegin(t *testing.T) {
	each(t, func(b *bench) {
		ctx := t.Context()
		for size := 512<<10 - 1000; size < 512<<10+200; size += 50 {
			blob, _ := json.Marshal(strings.Repeat("x", size-2))
			for _, req := range []run.Request{{Prompt: "go", Options: blob}, {Prompt: strings.Repeat("x", size)}} {
				r, err := b.rs.Start(ctx, b.id, req)
				if errors.Is(err, thole.ErrTooLarge) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				h, err := b.rs.Claim(ctx, &run.ClaimOptions{Agent: "coder"})
				if err != nil {
					t.Fatalf("%d: claim: %v", size, err)
				}
				if _, err := h.Finish(ctx, run.Failed, strings.Repeat("reason ", 1000)); err != nil {
					t.Fatalf("%d: finish: %v", size, err)
				}
				b.status(r.ID, run.Failed)
			}
		}
	})
}

func TestAWaitEndsWithItsThread(t *testing.T) {
	each(t, func(b *bench) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		b.start("first", run.Request{})
		h := b.claim()
		done := b.waits(ctx, "second", func(context.Context, *run.Handle) error { return nil })
		second := b.queue()[0].ID
		if err := b.ts.Destroy(ctx, b.id, nil); err != nil {
			t.Fatal(err)
		}
		h.Finish(ctx, run.Succeeded, "")
		if err := <-done; err == nil || ctx.Err() != nil {
			t.Errorf("the one that waited: got %v after %v", err, ctx.Err())
		}
		r, err := b.rs.Get(t.Context(), second)
		if err != nil || !r.Ended() {
			t.Errorf("got %+v, %v", r, err)
		}
		if got := b.events(); !slices.Equal(got[len(got)-2:], []string{"finished", "finished"}) {
			t.Errorf("events: got %v, want both finished", got)
		}
	})
}

func (b *bench) queue() []*run.Run {
	b.t.Helper()
	q, err := b.rs.Queue(b.t.Context(), b.id)
	if err != nil {
		b.t.Fatal(err)
	}
	return q
}

func TestALineOfRunsWhoseThreadsAreGoneIsPassed(t *testing.T) {
	each(t, func(b *bench) {
		ctx := t.Context()
		var ids []string
		for range 101 {
			th, err := b.ts.Create(ctx, &thread.CreateOptions{Assistant: "coder", Owner: "user:1", RunScope: thread.PerUser})
			if err != nil {
				t.Fatal(err)
			}
			b.id = th.ID
			ids = append(ids, th.ID)
			b.start("go", run.Request{})
		}
		h := b.claim()
		for _, id := range ids[1:100] {
			if err := b.ts.Destroy(ctx, id, nil); err != nil {
				t.Fatal(err)
			}
		}
		b.finish(h)
		h = b.claim()
		if h.Thread() != ids[100] {
			t.Errorf("got %s, want the last one %s", h.Thread(), ids[100])
		}
		b.finish(h)
	})
}

func TestALateWorkerDoesNotEndItsOwnRun(t *testing.T) {
	each(t, func(b *bench) {
		b.start("go", run.Request{})
		h := b.claim()
		b.e.Clock.Advance(time.Hour) // the machine slept
		if r, err := h.Get(t.Context()); err != nil || r.Status != run.Running {
			t.Fatalf("got %+v, %v; want a running run", r, err)
		}
		if err := h.Heartbeat(t.Context()); err != nil {
			t.Error(err)
		}
		b.finish(h)
	})
}

func TestARunThatIsClaimedAsADrainBeginsHasTheTimeOfGrace(t *testing.T) {
	for _, patient := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := &hesitant{Store: memstore.New()}
			b := onMemory(t, f)
			var g run.Group
			rs := run.In(b.sp, &run.Options{Group: &g})
			b.start("go", run.Request{})
			grace, end := context.WithCancel(t.Context())
			defer end()
			drained := make(chan struct{})
			drain := func([]thole.Commit) {
				f.before.Store(nil)
				go func() { g.Drain(grace); close(drained) }()
				synctest.Wait() // until it waits
			}
			f.before.Store(&drain)
			h, err := rs.Claim(t.Context(), &run.ClaimOptions{Agent: "coder"})
			if err != nil {
				t.Fatal(err)
			}
			want := run.Succeeded
			if !patient {
				end()
				<-drained
				want = run.Cancelled
			}
			err = h.Do(t.Context(), func(ctx context.Context, h *run.Handle) error { return h.Text(ctx, "done") })
			var c *run.CancelledError
			if patient && err != nil || !patient && (!errors.As(err, &c) || c.Cause != run.ByShutdown) {
				t.Errorf("patient %v: got %v", patient, err)
			}
			b.status(h.ID(), want)
			<-drained
			if _, err := rs.Claim(t.Context(), nil); !errors.Is(err, thole.ErrClosed) {
				t.Errorf("a claim after that: got %v, want ErrClosed", err)
			}
		})
	}
}

func TestADrainWaitsForARunThatIsFinishedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := onMemory(t, memstore.New())
		var g run.Group
		b.rs = run.In(b.sp, &run.Options{Group: &g})
		b.start("go", run.Request{})
		h := b.claim()
		drained := make(chan struct{})
		go func() { g.Drain(t.Context()); close(drained) }()
		synctest.Wait()
		select {
		case <-drained:
			t.Error("it did not wait")
		default:
		}
		b.finish(h)
		<-drained
	})
}

// slowHeads answers only after the caller has stopped waiting.
type slowHeads struct{ *memstore.Store }

func (s slowHeads) Heads(ctx context.Context, spaces ...string) ([]thole.Head, error) {
	if _, waits := ctx.Deadline(); waits {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Heads(ctx, spaces...)
}

func TestAClaimThatHadNoTimeToWaitStillLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := onMemory(t, slowHeads{memstore.New()})
		o := &run.ClaimOptions{Agent: "coder", Wait: time.Millisecond}
		if _, err := b.rs.Claim(t.Context(), o); !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("of nothing: got %v, want ErrNotFound", err)
		}
		r := b.start("go", run.Request{})
		h, err := b.rs.Claim(t.Context(), o)
		if err != nil || h.ID() != r.ID {
			t.Errorf("of a run: got %v, want it", err)
		}
	})
}

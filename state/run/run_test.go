package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

func TestMain(m *testing.M) { statetest.Main(m) }

// bench is a space with a thread in it.
type bench struct {
	t  *testing.T
	e  *statetest.Env
	sp *thole.Space
	rs *run.Runs
	ts *thread.Threads
	id string // of the thread
}

func each(t *testing.T, promise func(b *bench)) {
	t.Helper()
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		b := &bench{t: t, e: e}
		b.open()
		th, err := b.ts.Create(t.Context(), &thread.CreateOptions{Assistant: "coder"})
		if err != nil {
			t.Fatal(err)
		}
		b.id = th.ID
		promise(b)
	})
}

func (b *bench) open() {
	b.sp = b.e.Space("project:shop")
	b.rs, b.ts = run.In(b.sp, nil), thread.In(b.sp)
}

func (b *bench) start(prompt string, req run.Request) *run.Run {
	b.t.Helper()
	req.Prompt = prompt
	r, err := b.rs.Start(b.t.Context(), b.id, req)
	if err != nil {
		b.t.Fatalf("start %q: %v", prompt, err)
	}
	return r
}

func (b *bench) claim() *run.Handle {
	b.t.Helper()
	h, err := b.rs.Claim(b.t.Context(), &run.ClaimOptions{Agent: "coder"})
	if err != nil {
		b.t.Fatalf("claim: %v", err)
	}
	return h
}

func (b *bench) status(id, want string) *run.Run {
	b.t.Helper()
	r, err := b.rs.Get(b.t.Context(), id)
	if err != nil {
		b.t.Fatalf("get run: %v", err)
	}
	if r.Status != want {
		b.t.Errorf("run: got %s (cancel %+v, error %q), want %s", r.Status, r.Cancel, r.Error, want)
	}
	return r
}

func (b *bench) head() *thread.Thread {
	b.t.Helper()
	th, err := b.ts.Get(b.t.Context(), b.id)
	if err != nil {
		b.t.Fatal(err)
	}
	return th
}

// said returns what the history shows.
func (b *bench) said() string {
	b.t.Helper()
	p, err := b.ts.Messages(b.t.Context(), b.id, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for _, m := range p.Items {
		for _, bl := range m.Blocks {
			text := bl.Content
			if bl.Tool != nil {
				text = bl.Tool.Name + "=" + bl.Status
			}
			out = append(out, m.Role[:1]+":"+text)
		}
	}
	return strings.Join(out, " ")
}

// events returns the types of the thread's run events.
func (b *bench) events() []string {
	b.t.Helper()
	var out []string
	for e, err := range b.sp.Events(b.t.Context(), thole.ReadQuery{Types: []string{"run.*"}}) {
		if err != nil {
			b.t.Fatal(err)
		}
		out = append(out, strings.TrimPrefix(e.Type, "run."))
	}
	return out
}

func (b *bench) finish(h *run.Handle) {
	b.t.Helper()
	if _, err := h.Finish(b.t.Context(), run.Succeeded, ""); err != nil {
		b.t.Fatalf("finish: %v", err)
	}
}

func TestOfParallelStartsExactlyOneIsActive(t *testing.T) {
	each(t, func(b *bench) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		var ids []string
		for i := range 16 {
			wg.Go(func() {
				r, err := b.rs.Start(t.Context(), b.id, run.Request{Prompt: fmt.Sprint(i)})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				ids = append(ids, r.ID)
				mu.Unlock()
			})
		}
		wg.Wait()
		var claimed []*run.Handle
		for range ids {
			wg.Go(func() {
				h, err := b.rs.Claim(t.Context(), &run.ClaimOptions{Agent: "coder"})
				if err == nil {
					mu.Lock()
					claimed = append(claimed, h)
					mu.Unlock()
				} else if !errors.Is(err, thole.ErrNotFound) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(claimed) != 1 {
			t.Fatalf("claimed: got %d, want 1", len(claimed))
		}
		q, err := b.rs.Queue(t.Context(), b.id)
		if err != nil || len(q) != 15 {
			t.Errorf("queue: got %d (%v), want 15", len(q), err)
		}
		list, err := b.rs.List(t.Context(), b.id, nil)
		if err != nil || len(list.Items) != 16 {
			t.Errorf("list: got %d (%v), want 16", len(list.Items), err)
		}
		for h := claimed[0]; ; h = b.claim() {
			b.finish(h)
			if len(q) == 0 {
				break
			}
			q = q[1:]
		}
		if th := b.head(); th.Status != thread.Idle || th.ActiveRun != "" || th.Turns != 16 {
			t.Errorf("head at the end: got %+v", th)
		}
	})
}

func TestQueuedRunsAreEditableAndStartInOrder(t *testing.T) {
	each(t, func(b *bench) {
		b.start("one", run.Request{})
		h := b.claim()
		two := b.start("two", run.Request{})
		three := b.start("three", run.Request{})
		four := b.start("four", run.Request{})
		b.e.Reopen() // the queue is durable
		b.open()
		text := "two, better"
		if _, err := b.rs.EditQueued(t.Context(), two.ID, run.Edit{Prompt: &text}, two.Version); err != nil {
			t.Fatal(err)
		}
		if _, err := b.rs.EditQueued(t.Context(), two.ID, run.Edit{Prompt: &text}, two.Version); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("edit of an old version: got %v, want ErrConflict", err)
		}
		if _, err := b.rs.Cancel(t.Context(), three.ID, run.ByUser); err != nil {
			t.Fatal(err)
		}
		b.status(three.ID, run.Cancelled)
		q, err := b.rs.Queue(t.Context(), b.id)
		if err != nil || len(q) != 2 || q[0].ID != two.ID || q[1].ID != four.ID || q[0].Request[0].Content != text {
			t.Errorf("queue: got %+v (%v), want two, four", q, err)
		}
		if got := b.said(); got != "u:one" {
			t.Errorf("the history contains queued messages: %q", got)
		}
		h, err = b.rs.Attach(t.Context(), h.ID(), h.Fence())
		if err != nil {
			t.Fatal(err)
		}
		b.finish(h)
		b.finish(b.claim())
		if _, err := b.rs.EditQueued(t.Context(), two.ID, run.Edit{Prompt: &text}, thole.Position{}); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("edit of a run that ended: got %v, want ErrConflict", err)
		}
		b.finish(b.claim())
		if got, want := b.said(), "u:one u:two, better u:four"; got != want {
			t.Errorf("history: got %q, want %q", got, want)
		}
	})
}

func TestAnEditOfAQueuedRunMeansWhatAStartMeans(t *testing.T) {
	each(t, func(b *bench) {
		b.start("first", run.Request{})
		said := func(text string) []thread.Block { return []thread.Block{thread.TextBlock(text)} }
		image := []thread.Block{thread.Attachment("a.png", "image/png", "https://example.com/a.png")}
		p, none := "P", ""
		for name, c := range map[string]struct {
			before run.Request
			edit   run.Edit
			want   []thread.Block
		}{
			"prompt and blocks":              {run.Request{Prompt: "old"}, run.Edit{Prompt: &p, Blocks: image}, append(said("P"), image...)},
			"blocks alone":                   {run.Request{Prompt: "old"}, run.Edit{Blocks: image}, image},
			"blocks and an empty prompt":     {run.Request{Prompt: "old"}, run.Edit{Prompt: &none, Blocks: image}, image},
			"a prompt keeps the attachments": {run.Request{Prompt: "old", Blocks: image}, run.Edit{Prompt: &p}, append(said("P"), image...)},
			"a prompt where there was none":  {run.Request{Blocks: image}, run.Edit{Prompt: &p}, append(said("P"), image...)},
			"a prompt without its blocks":    {run.Request{Prompt: "old", Blocks: image}, run.Edit{Prompt: &p, Blocks: []thread.Block{}}, said("P")},
		} {
			r := b.start(c.before.Prompt, c.before)
			got, err := b.rs.EditQueued(t.Context(), r.ID, c.edit, thole.Position{})
			if err != nil || !reflect.DeepEqual(got.Request, c.want) {
				t.Errorf("%s: got %+v (%v), want %+v", name, got, err, c.want)
			}
		}
	})
}

func TestAnEditThatChangesNothingMakesNoVersion(t *testing.T) {
	each(t, func(b *bench) {
		r := b.start("one", run.Request{})
		head, err := b.sp.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.rs.EditQueued(t.Context(), r.ID, run.Edit{}, thole.Position{})
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("got %+v (%v), want %+v", got, err, r)
		}
		if now, err := b.sp.Head(t.Context()); err != nil || now.Last != head.Last {
			t.Errorf("the journal ends at %v (%v), want %v", now.Last, err, head.Last)
		}
		for range 2 {
			got, err := b.rs.EditQueued(thole.WithIdempotencyKey(t.Context(), "edit", ""), r.ID, run.Edit{}, thole.Position{})
			if err != nil || got.Version != r.Version {
				t.Errorf("under a key: got %+v (%v), want version %v", got, err, r.Version)
			}
		}
		if _, err := b.rs.EditQueued(t.Context(), r.ID, run.Edit{}, thole.Position{Epoch: r.Version.Epoch, Seq: r.Version.Seq + 1}); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("of another version: got %v, want ErrConflict", err)
		}
	})
}

func TestPromptEntersTheHistoryInTheCommitThatStartsTheRun(t *testing.T) {
	each(t, func(b *bench) {
		b.start("hello", run.Request{})
		b.claim()
		var added, started thole.Event
		for e, err := range b.sp.Events(t.Context(), thole.ReadQuery{}) {
			if err != nil {
				t.Fatal(err)
			}
			switch e.Type {
			case "message.added":
				added = e
			case "run.started":
				started = e
			}
		}
		if started.Position.Seq != added.Position.Seq+1 || !started.Time.Equal(added.Time) {
			t.Errorf("got message.added at %v and run.started at %v, want one commit", added.Position, started.Position)
		}
		r, _ := b.rs.List(t.Context(), b.id, nil)
		if r.Items[0].Request != nil {
			t.Error("the prompt is stored a second time")
		}
	})
}

func TestBusyPolicies(t *testing.T) {
	each(t, func(b *bench) {
		ctx := t.Context()
		b.start("one", run.Request{})
		h := b.claim()
		if err := h.Text(ctx, "half an ans"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.rs.Start(ctx, b.id, run.Request{Prompt: "x", Policy: run.Reject}); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("reject: got %v, want ErrConflict", err)
		}
		b.start("queued", run.Request{})
		b.start("urgent", run.Request{Policy: run.Interrupt})
		if r := b.status(h.ID(), run.Running); r.Cancel == nil || r.Cancel.Cause != run.BySuperseded {
			t.Errorf("interrupted run: got cancel %+v", r.Cancel)
		}
		b.finish(h)
		b.status(h.ID(), run.Cancelled)
		h = b.claim() // the urgent one is next, before those queued earlier
		if got, want := b.said(), "u:one a:half an ans u:urgent"; got != want {
			t.Errorf("interrupt: got %q, want %q", got, want)
		}
		if err := h.Text(ctx, "regretted"); err != nil {
			t.Fatal(err)
		}
		b.start("instead", run.Request{Policy: run.Rollback})
		b.finish(h)
		b.finish(b.claim())
		if got, want := b.said(), "u:one a:half an ans u:instead"; got != want {
			t.Errorf("rollback: got %q, want %q", got, want)
		}
		b.finish(b.claim())
		if th := b.head(); th.Turns != 3 || th.Status != thread.Idle {
			t.Errorf("head: got %d turns, %s; want 3, idle", th.Turns, th.Status)
		}
		// An interrupt while nobody has claimed the run yet.
		b.start("a", run.Request{})
		r := b.start("b", run.Request{Policy: run.Interrupt})
		if h := b.claim(); h.ID() != r.ID {
			t.Errorf("claimed %s, want the one that superseded", h.ID())
		}
	})
}

func TestCancelReachesTheWholeTreeAndNothingStartsAfterIt(t *testing.T) {
	each(t, func(b *bench) {
		ctx := t.Context()
		root := b.start("root", run.Request{})
		h := b.claim()
		parent := root
		var chain []*run.Handle
		for range 3 {
			r, err := b.rs.Start(ctx, "", run.Request{Prompt: "sub", Agent: "coder", Parent: parent.ID})
			if err != nil {
				t.Fatal(err)
			}
			chain = append(chain, b.claim())
			parent = r
		}
		waiting, err := b.rs.Start(ctx, "", run.Request{Prompt: "sub", Agent: "idle", Parent: root.ID})
		if err != nil {
			t.Fatal(err)
		}
		elsewhere, err := b.ts.Create(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.rs.Start(ctx, elsewhere.ID, run.Request{Parent: root.ID}); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("a sub-agent's run in a thread that is not below its parent's: got %v, want ErrInvalid", err)
		}
		if _, err := b.rs.Start(ctx, b.id, run.Request{Parent: root.ID}); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("child in its parent's thread: got %v, want ErrInvalid", err)
		}
		if _, err := b.rs.Cancel(ctx, root.ID, "boredom"); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("unknown cause: got %v, want ErrInvalid", err)
		}
		before, _ := b.sp.Head(ctx)
		if _, err := b.rs.Cancel(ctx, root.ID, run.ByCredits); err != nil {
			t.Fatal(err)
		}
		page, _ := b.sp.Read(ctx, thole.ReadQuery{After: before.Last, Types: []string{"run.cancel_requested"}})
		if n := len(page.Events); n != 5 || !page.Events[0].Time.Equal(page.Events[n-1].Time) {
			t.Errorf("cancel_requested: got %d, want 5 in one commit", n)
		}
		b.status(waiting.ID, run.Cancelled)
		var cancelled *run.CancelledError
		if _, err := chain[2].StartTool(ctx, "Bash", nil, ""); !errors.As(err, &cancelled) || cancelled.Cause != run.ByCredits || !errors.Is(err, thole.ErrCancelled) {
			t.Errorf("tool after cancel: got %v, want CancelledError by credits", err)
		}
		if _, err := b.rs.Start(ctx, "", run.Request{Parent: chain[1].ID()}); !errors.Is(err, thole.ErrCancelled) {
			t.Errorf("child after cancel: got %v, want ErrCancelled", err)
		}
		for _, w := range append(chain, h) {
			if r, err := w.Finish(ctx, run.Succeeded, ""); err != nil || r.Status != run.Cancelled {
				t.Errorf("late success: got %+v, %v; want cancelled", r, err)
			}
			if _, err := w.Finish(ctx, run.Succeeded, ""); !errors.Is(err, thole.ErrConflict) {
				t.Errorf("second end: got %v, want ErrConflict", err)
			}
		}
		before, _ = b.sp.Head(ctx)
		if r, err := b.rs.Cancel(ctx, root.ID, run.ByUser); err != nil || r.Status != run.Cancelled {
			t.Errorf("cancel of a cancelled run: got %+v, %v; want it", r, err)
		}
		if after, _ := b.sp.Head(ctx); after.Last != before.Last {
			t.Errorf("cancel of a cancelled run: got a commit at %s after %s, want none", after.Last, before.Last)
		}
		if r := b.status(root.ID, run.Cancelled); r.Cancel.Cause != run.ByCredits {
			t.Errorf("cause: got %s, want credits", r.Cancel.Cause)
		}
		if got, want := b.said(), "u:root"; got != want {
			t.Errorf("the parent's history: got %q, want %q", got, want)
		}
	})
}

func TestALargeTreeIsCancelledWhole(t *testing.T) {
	effort.SlowUnderRace(t)
	each(t, func(b *bench) {
		root := b.start("root", run.Request{})
		b.claim()
		const n = 150
		for range n {
			if _, err := b.rs.Start(t.Context(), "", run.Request{Prompt: "sub", Agent: "sub", Parent: root.ID}); err != nil {
				t.Fatal(err)
			}
		}
		// A superseded run is cancelled too, and that takes as many commits.
		b.start("instead", run.Request{Policy: run.Interrupt})
		got := b.events()
		if c := len(slices.DeleteFunc(got, func(s string) bool { return s != "finished" })); c != n {
			t.Errorf("cancelled: got %d, want %d", c, n)
		}
	})
}

func TestARunWhoseLeaseRanOutHasCrashedAndCanBeResumed(t *testing.T) {
	each(t, func(b *bench) {
		ctx := t.Context()
		r := b.start("work", run.Request{Options: json.RawMessage(`{"depth":2}`)})
		h := b.claim()
		if err := h.Text(ctx, "I begin"); err != nil {
			t.Fatal(err)
		}
		if _, err := h.StartTool(ctx, "Bash", json.RawMessage(`{"command":"make"}`), ""); err != nil {
			t.Fatal(err)
		}
		next := b.start("next", run.Request{})
		b.e.Clock.Advance(20 * time.Second)
		if err := h.Heartbeat(ctx); err != nil {
			t.Fatal(err)
		}
		b.e.Clock.Advance(20 * time.Second)
		if err := b.e.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		b.status(r.ID, run.Running) // 20 s of silence are not enough
		b.e.Reopen()
		b.open()
		b.e.Clock.Advance(11 * time.Second)
		if err := b.e.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		b.status(r.ID, run.Crashed)
		if got, want := b.said(), "u:work a:I begin a:Bash=interrupted"; got != want {
			t.Errorf("history: got %q, want %q", got, want)
		}
		if h := b.claim(); h.ID() != next.ID {
			t.Errorf("claimed %s, want the next", h.ID())
		} else {
			b.finish(h)
		}
		resumed, err := b.rs.Resume(ctx, r.ID)
		if err != nil || resumed.ResumedFrom != r.ID || string(resumed.Options) != `{"depth":2}` {
			t.Fatalf("resume: got %+v, %v", resumed, err)
		}
		h = b.claim()
		if err := h.Text(ctx, "I go on"); err != nil {
			t.Fatal(err)
		}
		b.finish(h)
		b.status(resumed.ID, run.Succeeded)
		if got, want := b.said(), "u:work a:I begin a:Bash=interrupted u:next a:I go on"; got != want {
			t.Errorf("history: got %q, want %q", got, want)
		}
		if _, err := b.rs.Resume(ctx, resumed.ID); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("resume of a success: got %v, want ErrConflict", err)
		}
	})
}

func TestAPausedHolderIsFenced(t *testing.T) {
	each(t, func(b *bench) {
		ctx := t.Context()
		b.start("one", run.Request{})
		old := b.claim()
		b.e.Clock.Advance(31 * time.Second)
		// Whoever needs the slot ends the dead run without a sweep.
		r := b.start("two", run.Request{})
		b.status(old.ID(), run.Crashed)
		h := b.claim()
		if h.ID() != r.ID {
			t.Fatalf("claimed %s, want the new run", h.ID())
		}
		for what, err := range map[string]error{
			"text":      old.Text(ctx, "ghost"),
			"heartbeat": old.Heartbeat(ctx),
		} {
			if !errors.Is(err, thole.ErrFenced) && !errors.Is(err, thole.ErrConflict) {
				t.Errorf("%s of a replaced holder: got %v, want ErrFenced or ErrConflict", what, err)
			}
		}
		if _, err := old.Space().Update(ctx, func(tx *thole.Tx) error { tx.Put("app/x", 1, nil); return nil }); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("any write of a replaced holder: got %v, want ErrFenced", err)
		}
		if _, err := b.rs.Attach(ctx, old.ID(), old.Fence()); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("attach with an old fence: got %v, want ErrFenced", err)
		}
		if got, want := b.said(), "u:one u:two"; got != want {
			t.Errorf("history: got %q, want %q", got, want)
		}
	})
}

func TestACancelledRunThatNobodyEndsIsCancelledWhenItsLeaseDies(t *testing.T) {
	each(t, func(b *bench) {
		b.start("one", run.Request{})
		h := b.claim()
		if _, err := b.rs.Cancel(t.Context(), h.ID(), run.ByUser); err != nil {
			t.Fatal(err)
		}
		b.e.Clock.Advance(time.Minute)
		if err := b.e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.status(h.ID(), run.Cancelled)
	})
}

func TestATimeoutEndsTheRunAsTimedOut(t *testing.T) {
	each(t, func(b *bench) {
		b.start("one", run.Request{Timeout: 90 * time.Second})
		h := b.claim()
		for range 5 {
			b.e.Clock.Advance(20 * time.Second)
			if err := h.Heartbeat(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := b.status(h.ID(), run.Running); r.Cancel == nil || r.Cancel.Cause != run.ByTimeout {
			t.Errorf("cancel: got %+v, want by timeout", r.Cancel)
		}
		b.finish(h)
		b.status(h.ID(), run.TimedOut)
	})
}

func TestOneRunPerUserWhenTheThreadSaysSo(t *testing.T) {
	each(t, func(b *bench) {
		var ids []string
		for range 2 {
			th, err := b.ts.Create(t.Context(), &thread.CreateOptions{Owner: "user:42", RunScope: thread.PerUser, Assistant: "coder"})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, th.ID)
		}
		for _, id := range ids {
			b.id = id
			b.start("hi", run.Request{})
		}
		h := b.claim()
		if _, err := b.rs.Claim(t.Context(), &run.ClaimOptions{Agent: "coder"}); !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("a second run of the user: got %v, want ErrNotFound", err)
		}
		b.finish(h)
		if h := b.claim(); h.Thread() != ids[1] {
			t.Errorf("next: got thread %s, want %s", h.Thread(), ids[1])
		}
	})
}

// An owner's slot covers threads that others may not even know of.
func TestNobodyElseEndsARunInAnotherThreadOfTheOwner(t *testing.T) {
	each(t, func(b *bench) {
		owner, other := b.sp.As("user:42"), b.sp.As("user:7")
		var ids []string
		for _, visibility := range []string{thread.Private, thread.ForSpace} {
			th, err := thread.In(owner).Create(t.Context(), &thread.CreateOptions{Visibility: visibility, RunScope: thread.PerUser, Assistant: "coder"})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, th.ID)
		}
		secret, err := run.In(owner, nil).Start(t.Context(), ids[0], run.Request{Prompt: "x"})
		if err != nil {
			t.Fatal(err)
		}
		for _, policy := range []string{run.Interrupt, run.Rollback} {
			if _, err := run.In(other, nil).Start(t.Context(), ids[1], run.Request{Prompt: "y", Policy: policy}); err != nil {
				t.Fatal(err)
			}
			if r, err := b.rs.Get(t.Context(), secret.ID); err != nil || r.Cancel != nil || r.Ended() {
				t.Fatalf("%s by another: got %+v, %v; want it untouched", policy, r, err)
			}
		}
		if _, err := run.In(owner, nil).Start(t.Context(), ids[1], run.Request{Prompt: "z", Policy: run.Interrupt}); err != nil {
			t.Fatal(err)
		}
		if r, err := b.rs.Get(t.Context(), secret.ID); err != nil || r.Cancel == nil {
			t.Errorf("interrupt by the owner: got %+v, %v; want it cancelled", r, err)
		}
	})
}

func TestUsageAddsUpByModelAndTheChoiceIsRecorded(t *testing.T) {
	each(t, func(b *bench) {
		ctx := t.Context()
		b.start("one", run.Request{Model: "auto"})
		h := b.claim()
		for _, err := range []error{
			h.SetModel(ctx, "big"),
			h.AddUsage(ctx, "big", run.Usage{InputTokens: 10, OutputTokens: 5}),
			h.AddUsage(ctx, "big", run.Usage{InputTokens: 1, OutputTokens: 1, TotalTokens: 2}),
			h.AddUsage(ctx, "small", run.Usage{InputTokens: 3}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		b.finish(h)
		r := b.status(h.ID(), run.Succeeded)
		if got, want := r.Usage["big"], (run.Usage{InputTokens: 11, OutputTokens: 6, TotalTokens: 17}); got != want || r.Model != "big" {
			t.Errorf("got %+v by %s, want %+v by big", got, r.Model, want)
		}
		p, _ := b.ts.Turns(ctx, b.id, nil)
		if u := p.Items[0].Usage; u == nil || u.TotalTokens != 20 {
			t.Errorf("usage of the turn: got %+v, want 20", u)
		}
	})
}

func TestARepeatedStartMakesOneRun(t *testing.T) {
	each(t, func(b *bench) {
		var ids []string
		for range 3 {
			r, err := b.rs.Start(thole.WithIdempotencyKey(t.Context(), "k", "f"), b.id, run.Request{Prompt: "x"})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
		if len(slices.Compact(ids)) != 1 {
			t.Errorf("got %v, want one run", ids)
		}
	})
}

func TestDestroyingAThreadEndsWhatIsQueuedInIt(t *testing.T) {
	each(t, func(b *bench) {
		r := b.start("x", run.Request{})
		if err := b.ts.Destroy(t.Context(), b.id, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := b.rs.Claim(t.Context(), &run.ClaimOptions{Agent: "coder"}); !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("claim: got %v, want ErrNotFound", err)
		}
		b.status(r.ID, run.Cancelled)
	})
}

func TestRunsBehindTheActiveOneEndWithTheirThread(t *testing.T) {
	each(t, func(b *bench) {
		b.start("active", run.Request{})
		h := b.claim()
		var queued []*run.Run
		for range 5 {
			queued = append(queued, b.start("queued", run.Request{}))
		}
		if err := b.ts.Destroy(t.Context(), b.id, nil); err != nil {
			t.Fatal(err)
		}
		b.status(queued[4].ID, run.Cancelled) // a read is enough
		b.finish(h)
		if _, err := b.rs.Claim(t.Context(), &run.ClaimOptions{Agent: "coder"}); !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("claim: got %v, want ErrNotFound", err)
		}
		for e, err := range b.sp.Records(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			var r run.Run
			if id, below, _ := strings.Cut(strings.TrimPrefix(e.Key, "run/"), "/"); strings.HasPrefix(e.Key, "run/") && below == "" {
				if err := e.As(&r); err != nil || !r.Ended() {
					t.Errorf("%s: got %s, %v; want it ended", id, r.Status, err)
				}
				continue
			}
			t.Errorf("%s is left", e.Key)
		}
	})
}

func TestBadRequestsAreRefused(t *testing.T) {
	each(t, func(b *bench) {
		for name, req := range map[string]run.Request{
			"policy":     {Policy: "maybe"},
			"disconnect": {OnDisconnect: "explode"},
			"timeout":    {Timeout: -1},
			"block":      {Blocks: []thread.Block{{Type: "video"}}},
			"options":    {Options: json.RawMessage(`{`)},
		} {
			if _, err := b.rs.Start(context.Background(), b.id, req); !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("%s: got %v, want ErrInvalid", name, err)
			}
		}
		if _, err := b.rs.Start(context.Background(), b.id, run.Request{ResumedFrom: thole.NewID("run")}); !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("resume of nothing: got %v, want ErrNotFound", err)
		}
	})
}

func TestADeadRunIsFoundThoughASweepKnewNothingOfRuns(t *testing.T) {
	each(t, func(b *bench) {
		b.start("one", run.Request{})
		h := b.claim()
		if _, err := b.rs.Start(t.Context(), "", run.Request{Prompt: "sub", Parent: h.ID(), Agent: "sub"}); err != nil {
			t.Fatal(err)
		}
		b.e.Reopen() // nothing in this process has used runs yet
		b.e.Clock.Advance(time.Minute)
		if err := b.e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.open()
		b.status(h.ID(), run.Crashed)
		if th := b.head(); th.ActiveRun != "" || th.Status != thread.Idle {
			t.Errorf("thread: got %s with %q, want idle", th.Status, th.ActiveRun)
		}
		if got := b.events(); !slices.Contains(got, "cancel_requested") {
			t.Errorf("its sub-agent continues: %v", got)
		}
	})
}

package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// Two people resume a run: what it did must not happen twice.
func TestARunIsResumedOnce(t *testing.T) {
	each(t, func(b *bench) {
		old := b.start("go", run.Request{})
		b.claim()
		b.e.Clock.Advance(time.Hour) // the worker is dead
		repeat := func() (*run.Run, error) {
			return b.rs.Resume(thole.WithIdempotencyKey(t.Context(), "resume", "f"), old.ID)
		}
		first, err := repeat()
		if err != nil {
			t.Fatal(err)
		}
		last := first
		refused := func(status string) {
			t.Helper()
			_, direct := b.rs.Resume(t.Context(), old.ID)
			_, asked := b.rs.Start(t.Context(), b.id, run.Request{Prompt: "again", ResumedFrom: old.ID})
			for _, err := range []error{direct, asked} {
				if !errors.Is(err, thole.ErrConflict) || !strings.Contains(err.Error(), last.ID+", which is "+status) {
					t.Errorf("second resume: got %v, want ErrConflict that names %s, which is %s", err, last.ID, status)
				}
			}
		}
		refused(run.Queued)
		b.claim()
		b.e.Clock.Advance(time.Hour) // and so is the worker of the run that resumed it
		b.status(first.ID, run.Crashed)
		b.reopen()
		refused(run.Crashed)
		if again, err := repeat(); err != nil || again.ID != first.ID {
			t.Errorf("the repeat under the key: got %+v, %v, want %s", again, err, first.ID)
		}
		if last, err = b.rs.Resume(t.Context(), first.ID); err != nil {
			t.Fatalf("resume of the run that resumed and crashed: %v", err)
		}
		h := b.claim()
		if h.ID() != last.ID {
			t.Fatalf("claimed %s, want %s", h.ID(), last.ID)
		}
		b.finish(h)
		refused(run.Succeeded)
		if got := b.status(old.ID, run.Crashed).ResumedBy; got != first.ID {
			t.Errorf("resumed_by is %q, want %s", got, first.ID)
		}
	})
}

func TestAnOldRunWithATimeoutOverTheLimitGoesOn(t *testing.T) {
	each(t, func(b *bench) {
		r := b.start("go", run.Request{})
		if _, err := b.e.Space("project:shop").Update(t.Context(), func(tx *thole.Tx) error {
			rec, err := tx.Get("run/" + r.ID)
			var v map[string]any
			if err == nil {
				err = rec.As(&v)
			}
			v["timeout"] = 10_000_000_000 // seconds overflow a time.Duration
			tx.Put("run/"+r.ID, v, nil)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		b.claim()
		b.e.Clock.Advance(time.Second)
		if err := b.e.Store.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.status(r.ID, run.Running)
		b.e.Clock.Advance(time.Hour) // the worker is dead
		if _, err := b.rs.Resume(t.Context(), r.ID); err != nil {
			t.Error(err)
		}
	})
}

// Whatever worker had the first run, the same workers may take the second.
func TestAResumedRunIsAskedForAsTheFirstWas(t *testing.T) {
	each(t, func(b *bench) {
		plain, err := b.ts.Create(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		first, err := b.rs.Start(t.Context(), plain.ID, run.Request{Prompt: "go", Model: "m", OnDisconnect: "cancel",
			Timeout: time.Minute, Options: json.RawMessage(`{"a":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		// crash lets a worker take the run, and die.
		crash := func(id, agent string) {
			t.Helper()
			h, err := b.rs.Claim(t.Context(), &run.ClaimOptions{Agent: agent, Name: "dealer"})
			if err != nil || h.ID() != id {
				t.Fatalf("claimed %+v, %v; want %s", h, err, id)
			}
			b.e.Clock.Advance(time.Hour)
			b.status(id, run.Crashed)
		}
		crash(first.ID, "")
		second, err := b.rs.Resume(t.Context(), first.ID)
		if err != nil {
			t.Fatal(err)
		}
		crash(second.ID, "")
		third, err := b.rs.Start(t.Context(), plain.ID, run.Request{ResumedFrom: second.ID})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []*run.Run{second, third} {
			if r.Agent != "" || r.Model != "m" || r.OnDisconnect != "cancel" || r.Timeout != 60 || string(r.Options) != `{"a":1}` {
				t.Errorf("resumed: got %+v, want what was asked for", r)
			}
		}
		crash(third.ID, "")
		anew := run.Request{ResumedFrom: third.ID, Agent: "coder", Model: "n", OnDisconnect: "continue", Timeout: time.Hour, Options: json.RawMessage(`{"b":2}`)}
		fourth, err := b.rs.Start(t.Context(), plain.ID, anew)
		if err != nil {
			t.Fatal(err)
		}
		if r := fourth; r.Agent != "coder" || r.Model != "n" || r.OnDisconnect != "continue" || r.Timeout != 3600 || string(r.Options) != `{"b":2}` {
			t.Errorf("asked for anew: got %+v", r)
		}
		crash(fourth.ID, "coder")
		if fifth, err := b.rs.Resume(t.Context(), fourth.ID); err != nil || fifth.Agent != "coder" {
			t.Errorf("resumed: got %+v, %v; want a run of coder", fifth, err)
		}
	})
}

func TestAResumedRunComesBeforeThoseThatWait(t *testing.T) {
	each(t, func(b *bench) {
		old := b.start("one", run.Request{})
		next, last := b.start("two", run.Request{}), b.start("three", run.Request{})
		b.claim()
		b.e.Clock.Advance(time.Hour) // the worker is dead, and two is next
		b.status(old.ID, run.Crashed)
		again, err := b.rs.Start(t.Context(), b.id, run.Request{ResumedFrom: old.ID})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []*run.Run{next, again, last} {
			h := b.claim()
			if h.ID() != want.ID {
				t.Errorf("claimed %s, want %s", h.ID(), want.ID)
			}
			b.finish(h)
		}
	})
}

// Also one that resumes a run which resumed another and never began.
func TestAResumedRunTakesNoPostedMessage(t *testing.T) {
	each(t, func(b *bench) {
		old := b.start("one", run.Request{})
		if _, err := b.claim().Finish(t.Context(), run.Failed, "odd"); err != nil {
			t.Fatal(err)
		}
		posted := thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock("posted")}}
		m, err := b.ts.Append(t.Context(), b.id, posted, nil)
		if err != nil {
			t.Fatal(err)
		}
		unbegun, err := b.rs.Resume(t.Context(), old.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.rs.Cancel(t.Context(), unbegun.ID, run.ByUser); err != nil {
			t.Fatal(err)
		}
		if _, err := b.rs.Resume(t.Context(), unbegun.ID); err != nil {
			t.Fatal(err)
		}
		h := b.claim()
		if h.Turn() == m.Turn {
			t.Error("the resumed run has the turn of the message")
		}
		b.finish(h)
		page, err := b.ts.Turns(t.Context(), b.id, nil)
		if err != nil || len(page.Items) != 3 || page.Items[1].ID != m.Turn || page.Items[1].Status != thread.Pending {
			t.Errorf("turns %+v, %v; want the second of three pending", page.Items, err)
		}
	})
}

func TestARunNeedsAMessageToAnswer(t *testing.T) {
	each(t, func(b *bench) {
		start := func() error {
			_, err := b.rs.Start(t.Context(), b.id, run.Request{})
			return err
		}
		post := func(role, text string) {
			t.Helper()
			if _, err := b.ts.Append(t.Context(), b.id, thread.Message{Role: role, Blocks: []thread.Block{thread.TextBlock(text)}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := start(); !errors.Is(err, thole.ErrConflict) || !strings.Contains(err.Error(), "no message") {
			t.Errorf("a run without a message: got %v, want ErrConflict that says so", err)
		}
		post(thread.User, "make it")
		if err := start(); err != nil {
			t.Fatal(err)
		}
		h := b.claim()
		post(thread.User, "and make it blue") // joins the turn, whose worker may not see it
		b.finish(h)
		if err := start(); err != nil {
			t.Errorf("a message that came during a run cannot be answered: %v", err)
		}
		b.finish(b.claim())
		post(thread.User, "where am I?")
		post(thread.System, "the user is in Berlin")
		if err := start(); err != nil {
			t.Errorf("a message before one of the system cannot be answered: %v", err)
		}
	})
}

// Records of earlier versions do not say that a run's agent is its worker's.
func TestAnOldRunThatNamedNoAgentIsResumedWithoutOne(t *testing.T) {
	each(t, func(b *bench) {
		plain, err := b.ts.Create(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, agent := range []string{"", "coder"} {
			old, err := b.rs.Start(t.Context(), plain.ID, run.Request{Prompt: "go", Agent: agent})
			if err != nil {
				t.Fatal(err)
			}
			h, err := b.rs.Claim(t.Context(), &run.ClaimOptions{Agent: agent, Name: "dealer"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.Finish(t.Context(), run.Failed, "odd"); err != nil {
				t.Fatal(err)
			}
			if _, err := b.sp.Update(t.Context(), func(tx *thole.Tx) error {
				tx.Delete("run/" + old.ID + "/internal")
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			assistant := "other" // set since
			if _, err := b.ts.Patch(t.Context(), plain.ID, thread.Patch{Assistant: &assistant}, nil); err != nil {
				t.Fatal(err)
			}
			again, err := b.rs.Resume(t.Context(), old.ID)
			if err != nil || again.Agent != agent {
				t.Fatalf("resumed: got %+v, %v; want a run of %q", again, err, agent)
			}
			if h, err = b.rs.Claim(t.Context(), &run.ClaimOptions{Agent: agent}); err != nil {
				t.Fatal(err)
			}
			b.finish(h)
			assistant = ""
			if _, err := b.ts.Patch(t.Context(), plain.ID, thread.Patch{Assistant: &assistant}, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestResumedRunsKeepTheirOrder(t *testing.T) {
	each(t, func(b *bench) {
		var failed []*run.Run
		for _, prompt := range []string{"one", "two"} {
			failed = append(failed, b.start(prompt, run.Request{}))
			if _, err := b.claim().Finish(t.Context(), run.Failed, "odd"); err != nil {
				t.Fatal(err)
			}
		}
		b.start("three", run.Request{})
		active := b.claim()
		four := b.start("four", run.Request{})
		one, two := b.start("", run.Request{ResumedFrom: failed[0].ID}), b.start("", run.Request{ResumedFrom: failed[1].ID})
		five := b.start("five", run.Request{})
		b.finish(active)
		for _, want := range []*run.Run{one, two, four, five} {
			h := b.claim()
			if h.ID() != want.ID {
				t.Errorf("claimed %s, want %s", h.ID(), want.ID)
			}
			b.finish(h)
		}
	})
}

func TestARunWaitsForAMessageOfThoseBeforeIt(t *testing.T) {
	each(t, func(b *bench) {
		first := b.start("hi", run.Request{})
		empty := b.start("", run.Request{})
		if _, err := b.rs.Cancel(t.Context(), first.ID, run.ByUser); err != nil {
			t.Fatal(err)
		}
		next := b.start("next", run.Request{})
		h := b.claim()
		if h.ID() != next.ID {
			t.Errorf("claimed %s, want %s", h.ID(), next.ID)
		}
		b.finish(h)
		if r := b.status(empty.ID, run.Failed); !strings.Contains(r.Error, "no message") {
			t.Errorf("it failed because of %q, want the reason", r.Error)
		}
		b.start("more", run.Request{})
		last := b.start("", run.Request{})
		b.finish(b.claim())
		b.finish(b.claim())
		b.status(last.ID, run.Succeeded)
	})
}

// The owner's runs go ahead of others', so those bring no message for them.
func TestARunOfTheOwnerWaitsForNoMessageOfOthers(t *testing.T) {
	each(t, func(b *bench) {
		th, err := b.ts.Create(t.Context(), &thread.CreateOptions{Owner: "user:1", RunScope: thread.PerUser, Assistant: "coder"})
		if err != nil {
			t.Fatal(err)
		}
		other, own := run.In(b.sp.As("user:2"), nil), run.In(b.sp.As("user:1"), nil)
		if _, err := other.Start(t.Context(), th.ID, run.Request{Prompt: "hi"}); err != nil {
			t.Fatal(err)
		}
		if _, err := own.Start(t.Context(), th.ID, run.Request{}); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("the owner's run without a message: got %v, want ErrConflict", err)
		}
	})
}

// However many runs came before it.
func TestARunWaitsForTheMessageOfTheLastOfMany(t *testing.T) {
	each(t, func(b *bench) {
		blocker := b.start("blocker", run.Request{})
		for range thole.MaxPage {
			r := b.start("x", run.Request{})
			if _, err := b.rs.Dequeue(t.Context(), r.ID); err != nil {
				t.Fatal(err)
			}
		}
		b.start("last", run.Request{})
		if _, err := b.rs.Dequeue(t.Context(), blocker.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := b.rs.Start(t.Context(), b.id, run.Request{}); err != nil {
			t.Error(err)
		}
	})
}

func TestARunOfDoThatFindsNoMessageFails(t *testing.T) {
	each(t, func(b *bench) {
		first := b.start("hi", run.Request{})
		done := make(chan error, 1)
		go func() {
			done <- b.rs.Do(t.Context(), b.id, run.Request{}, func(context.Context, *run.Handle) error { return nil })
		}()
		for {
			if queue, err := b.rs.Queue(t.Context(), b.id); err != nil || len(queue) == 2 {
				break
			}
		}
		if _, err := b.rs.Cancel(t.Context(), first.ID, run.ByUser); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, thole.ErrInvalid) || !strings.Contains(err.Error(), "no message") {
			t.Errorf("got %v, want ErrInvalid that says so", err)
		}
		if queue, err := b.rs.Queue(t.Context(), b.id); err != nil || len(queue) > 0 || b.head().ActiveRun != "" {
			t.Errorf("the queue is %v, %v, and %q is active; want none", queue, err, b.head().ActiveRun)
		}
	})
}

// The message of a run that was rolled back is not in the history, but it was asked.
func TestARolledBackRunIsResumedWithItsMessage(t *testing.T) {
	each(t, func(b *bench) {
		post := thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock("post")}}
		for _, posted := range []bool{false, true} {
			var old *run.Run
			if posted {
				if _, err := b.ts.Append(t.Context(), b.id, post, nil); err != nil {
					t.Fatal(err)
				}
				old = b.start("", run.Request{})
			} else {
				old = b.start("post", run.Request{})
			}
			h := b.claim()
			b.start("instead", run.Request{Policy: run.Rollback})
			b.status(old.ID, run.Running)
			b.finish(h)
			b.status(old.ID, run.Cancelled)
			b.finish(b.claim())
			again := b.start("", run.Request{ResumedFrom: old.ID})
			if len(again.Request) != 1 || again.Request[0].Content != "post" {
				t.Errorf("posted %v: resumed with %+v, want its message", posted, again.Request)
			}
			b.finish(b.claim())
		}
	})
}

func TestAMessageOfARunSaysSomething(t *testing.T) {
	each(t, func(b *bench) {
		none, empty := []thread.Block{}, []thread.Block{thread.TextBlock("")}
		if _, err := b.rs.Start(t.Context(), b.id, run.Request{Blocks: empty}); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("start: got %v, want ErrInvalid", err)
		}
		r := b.start("go", run.Request{})
		prompt := ""
		for _, e := range []run.Edit{{Blocks: none}, {Blocks: empty}, {Prompt: &prompt}} {
			if _, err := b.rs.EditQueued(t.Context(), r.ID, e, thole.Position{}); !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("edit %+v: got %v, want ErrInvalid", e, err)
			}
		}
	})
}

func TestResumedRunsKeepTheirOrderBehindAnInterruptingOne(t *testing.T) {
	each(t, func(b *bench) {
		var failed []*run.Run
		for i := range 18 {
			failed = append(failed, b.start(fmt.Sprint(i), run.Request{}))
			if _, err := b.claim().Finish(t.Context(), run.Failed, "odd"); err != nil {
				b.t.Fatal(err)
			}
		}
		b.start("active", run.Request{})
		active := b.claim()
		last := b.start("last", run.Request{})
		var want []string
		for i, f := range failed {
			want = append(want, b.start("", run.Request{ResumedFrom: f.ID}).ID)
			if i == 8 {
				want = slices.Insert(want, 0, b.start("stop", run.Request{Policy: run.Interrupt}).ID)
			}
		}
		for i, id := range append(want, last.ID) {
			b.finish(active)
			if active = b.claim(); active.ID() != id {
				b.t.Errorf("%d: claimed %s, want %s", i, active.ID(), id)
			}
		}
	})
}

// A message that has not reached the history is not lost for a run that has none of its own.
func TestARunWithoutAMessageRemovesNoneThatItCouldAnswer(t *testing.T) {
	each(t, func(b *bench) {
		refused := func(what, thread string, q run.Request) {
			b.t.Helper()
			if r, err := b.rs.Start(t.Context(), thread, q); !errors.Is(err, thole.ErrConflict) || !strings.Contains(err.Error(), "no message") {
				b.t.Errorf("%s: %+v, %v; want ErrConflict", what, r, err)
			}
		}
		only := b.start("only", run.Request{})
		refused("interrupt of what has not begun", b.id, run.Request{Policy: run.Interrupt})
		refused("rollback of what has not begun", b.id, run.Request{Policy: run.Rollback})
		b.status(only.ID, run.Queued)
		h := b.claim()
		refused("rollback of the first turn", b.id, run.Request{Policy: run.Rollback})
		b.status(only.ID, run.Running)
		b.start("", run.Request{Policy: run.Interrupt})
		b.finish(h)
		if h := b.claim(); len(b.said()) == 0 {
			b.t.Errorf("%s finds no message", h.ID())
		}

		var threads []string
		for range 2 {
			th, err := b.ts.Create(t.Context(), &thread.CreateOptions{Owner: "user:1", RunScope: thread.PerUser})
			if err != nil {
				b.t.Fatal(err)
			}
			threads = append(threads, th.ID)
		}
		if _, err := b.rs.Start(t.Context(), threads[0], run.Request{Prompt: "x"}); err != nil {
			b.t.Fatal(err)
		}
		refused("behind the run of another thread", threads[1], run.Request{})
		if _, err := b.rs.Start(t.Context(), threads[0], run.Request{}); err != nil {
			b.t.Errorf("behind a run of this thread: %v", err)
		}
	})
}

func TestARunThatHasBegunIsNotTakenOutOfTheQueue(t *testing.T) {
	each(t, func(b *bench) {
		first, next := b.start("first", run.Request{}), b.start("next", run.Request{})
		h := b.claim()
		if _, err := b.rs.Dequeue(t.Context(), first.ID); !errors.Is(err, thole.ErrConflict) {
			b.t.Errorf("a run that has begun: %v, want ErrConflict", err)
		}
		for range 2 {
			if r, err := b.rs.Dequeue(t.Context(), next.ID); err != nil || r.Status != run.Cancelled {
				b.t.Errorf("a queued run: %+v, %v", r, err)
			}
		}
		if r := b.status(first.ID, run.Running); r.Cancel != nil {
			b.t.Errorf("it is being cancelled: %+v", r.Cancel)
		}
		b.finish(h)
		if _, err := b.rs.Dequeue(t.Context(), first.ID); !errors.Is(err, thole.ErrConflict) {
			b.t.Errorf("a run that has ended: %v, want ErrConflict", err)
		}
	})
}

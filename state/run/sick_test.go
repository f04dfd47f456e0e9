package run_test

import (
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

// spoil changes the stored record under key, as an admin's raw commit could.
func (b *bench) spoil(key string, change func(v string) string) {
	b.t.Helper()
	_, err := b.sp.Update(b.t.Context(), func(tx *thole.Tx) error {
		rec, err := tx.Get(key)
		tx.Put(key, json.RawMessage(change(string(rec.Value))), nil)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func TestARunThatCannotBeginHoldsUpNoOther(t *testing.T) {
	each(t, func(b *bench) {
		ctx := t.Context()
		sick, next := b.start("sick", run.Request{}), b.start("next", run.Request{})
		b.spoil("run/"+sick.ID, func(v string) string { return strings.Replace(v, `"type":"text"`, `"type":"odd"`, 1) })
		for _, what := range []string{"run", "ready", "thread"} {
			th, err := b.ts.Create(ctx, &thread.CreateOptions{Assistant: "coder"})
			if err != nil {
				b.t.Fatal(err)
			}
			r, err := b.rs.Start(ctx, th.ID, run.Request{Prompt: what})
			if err != nil {
				b.t.Fatal(err)
			}
			key := map[string]string{"run": "run/" + r.ID, "ready": "ready/coder/" + r.ID, "thread": thread.Key(th.ID)}[what]
			b.spoil(key, func(string) string { return `"unreadable"` })
		}
		well, err := b.ts.Create(ctx, &thread.CreateOptions{Assistant: "coder"})
		if err != nil {
			b.t.Fatal(err)
		}
		last, err := b.rs.Start(ctx, well.ID, run.Request{Prompt: "last"})
		if err != nil {
			b.t.Fatal(err)
		}
		got := map[string]bool{}
		for {
			h, err := b.rs.Claim(ctx, &run.ClaimOptions{Agent: "coder"})
			if errors.Is(err, thole.ErrNotFound) {
				break
			}
			if err != nil {
				b.t.Fatalf("claim: %v", err)
			}
			got[h.ID()] = true
			b.finish(h)
		}
		if !got[next.ID] || !got[last.ID] || len(got) != 3 { // and the one that nobody wants any more
			b.t.Errorf("claimed %v, want %s and %s and one more", got, next.ID, last.ID)
		}
		if r := b.status(sick.ID, run.Failed); !strings.Contains(r.Error, "odd") {
			b.t.Errorf("the run failed because of %q, want the reason", r.Error)
		}
	})
}

// A slot that serves all threads of an owner goes on although the heads of two of them
// cannot be read: that of the active run and that of the next.
func TestAThreadThatCannotBeReadDoesNotHoldUpItsOwner(t *testing.T) {
	each(t, func(b *bench) {
		ctx := t.Context()
		var threads, runs []string
		for range 3 {
			th, err := b.ts.Create(ctx, &thread.CreateOptions{Owner: "user:1", RunScope: thread.PerUser})
			if err != nil {
				b.t.Fatal(err)
			}
			r, err := b.rs.Start(ctx, th.ID, run.Request{Prompt: "x", Agent: "coder"})
			if err != nil {
				b.t.Fatal(err)
			}
			threads, runs = append(threads, th.ID), append(runs, r.ID)
		}
		b.claim()
		for _, id := range threads[:2] {
			b.spoil(thread.Key(id), func(string) string { return "1" })
		}
		b.e.Clock.Advance(time.Hour) // the worker is gone
		b.status(runs[0], run.Crashed)
		h := b.claim()
		if h.ID() != runs[2] {
			b.t.Errorf("claimed %s, want %s", h.ID(), runs[2])
		}
		b.finish(h)
	})
}

// The runs behind one that cannot be read, or whose thread cannot, start before it. Once
// it is repaired, it is next.
func TestARunThatCannotBeReadKeepsItsPlace(t *testing.T) {
	each(t, func(b *bench) {
		for name, bad := range map[string]string{
			"no run":     `1`,
			"odd status": `{"status":5}`,
			"odd thread": `{"thread":"thrd_x","status":"queued"}`,
		} {
			first, sick := b.start("first", run.Request{}), b.start("sick", run.Request{})
			next, last := b.start("next", run.Request{}), b.start("last", run.Request{})
			h := b.claim()
			var good string
			b.spoil("run/"+sick.ID, func(v string) string { good = v; return bad })
			b.finish(h)
			b.status(first.ID, run.Succeeded)
			if h = b.claim(); h.ID() != next.ID {
				b.t.Fatalf("%s: claimed %s, want %s", name, h.ID(), next.ID)
			}
			if queue, err := b.rs.Queue(t.Context(), b.id); err != nil || queue[len(queue)-1].ID != last.ID {
				b.t.Errorf("%s: the queue is %v, %v; want it to end with %s", name, queue, err, last.ID)
			}
			b.spoil("run/"+sick.ID, func(string) string { return good })
			b.finish(h)
			for _, want := range []*run.Run{sick, last} {
				if h := b.claim(); h.ID() != want.ID {
					b.t.Errorf("%s: claimed %s, want %s", name, h.ID(), want.ID)
				} else {
					b.finish(h)
				}
			}
		}
	})
}

// Nobody else has to start a run for those that were repaired, however many they are.
func TestRepairedRunsStartWhenSomebodyReadsThem(t *testing.T) {
	each(t, func(b *bench) {
		const n = 40
		b.start("first", run.Request{})
		h := b.claim()
		good := make([]string, n)
		runs := make([]*run.Run, n)
		for i := range runs {
			runs[i] = b.start("sick", run.Request{})
			b.spoil("run/"+runs[i].ID, func(v string) string { good[i] = v; return "1" })
		}
		last := b.start("last", run.Request{})
		b.finish(h)
		for range 4 {
			b.status(last.ID, run.Queued)
		}
		if h = b.claim(); h.ID() != last.ID {
			b.t.Errorf("claimed %s, want %s", h.ID(), last.ID)
		}
		b.finish(h)
		got := make(map[string]bool)
		for i, r := range runs {
			b.spoil("run/"+r.ID, func(string) string { return good[i] })
		}
		b.status(runs[0].ID, run.Queued)
		for range runs {
			h := b.claim()
			got[h.ID()] = true
			b.finish(h)
		}
		if len(got) != n {
			b.t.Errorf("claimed %d of %d repaired runs", len(got), n)
		}
	})
}

// A key that was used for something else is an error of the caller, not of the run.
func TestAClaimUnderAUsedKeyFailsNoRun(t *testing.T) {
	each(t, func(b *bench) {
		ctx := thole.WithIdempotencyKey(t.Context(), "k", "f")
		if _, err := b.ts.Create(ctx, nil); err != nil {
			b.t.Fatal(err)
		}
		r := b.start("go", run.Request{})
		var reused *thole.ReusedKeyError
		if _, err := b.rs.Claim(thole.WithIdempotencyKey(t.Context(), "k", "f"), &run.ClaimOptions{Agent: "coder"}); !errors.As(err, &reused) {
			b.t.Errorf("got %v, want *ReusedKeyError", err)
		}
		b.status(r.ID, run.Queued)
		b.finish(b.claim())
	})
}

// A thread that could not be read while its run ended still says that the run works on it.
func TestARepairedThreadGoesOn(t *testing.T) {
	each(t, func(b *bench) {
		first, next := b.start("first", run.Request{}), b.start("next", run.Request{})
		b.claim()
		var good string
		b.spoil(thread.Key(b.id), func(v string) string { good = v; return "1" })
		b.e.Clock.Advance(time.Hour) // the worker is gone
		b.status(first.ID, run.Crashed)
		b.status(next.ID, run.Queued)
		b.spoil(thread.Key(b.id), func(string) string { return good })
		b.status(next.ID, run.Queued) // and makes it active
		h := b.claim()
		if h.ID() != next.ID {
			b.t.Errorf("claimed %s, want %s", h.ID(), next.ID)
		}
		b.finish(h)
		page, err := b.ts.Turns(t.Context(), b.id, nil)
		if err != nil || len(page.Items) != 2 || page.Items[0].Status != thread.Interrupted || page.Items[1].Status != thread.Done {
			b.t.Errorf("the turns are %+v, %v", page.Items, err)
		}
	})
}

// An earlier copy of a thread does not know what its runs have done since.
func TestAThreadRepairedFromAnEarlierCopyGoesOn(t *testing.T) {
	each(t, func(b *bench) {
		copied := func() (head string) {
			b.spoil(thread.Key(b.id), func(v string) string { head = v; return v })
			return head
		}
		repair := func(head string) { b.spoil(thread.Key(b.id), func(string) string { return head }) }
		idle := copied()
		first, next := b.start("first", run.Request{}), b.start("next", run.Request{})
		h := b.claim()
		open := copied()
		repair(idle)
		if _, err := h.Finish(t.Context(), run.Succeeded, ""); err != nil {
			b.t.Errorf("finish a run that its thread does not know: %v", err)
		}
		b.status(first.ID, run.Succeeded)
		repair(open) // which says that first works
		if h = b.claim(); h.ID() != next.ID {
			b.t.Errorf("claimed %s, want %s", h.ID(), next.ID)
		}
		b.finish(h)
		if th := b.head(); th.Status != thread.Idle || th.ActiveRun != "" {
			b.t.Errorf("the thread is %s with run %q, want idle without one", th.Status, th.ActiveRun)
		}
	})
}

// A copy of a thread that knows neither of a run's turn nor of the run that is to remove it.
func TestARunRolledBackInARepairedThreadEnds(t *testing.T) {
	each(t, func(b *bench) {
		first := b.start("first", run.Request{})
		var ready string
		b.spoil(thread.Key(b.id), func(v string) string { ready = v; return v })
		h := b.claim()
		b.spoil(thread.Key(b.id), func(string) string { return ready })
		next := b.start("next", run.Request{Policy: run.Rollback})
		if _, err := h.Finish(t.Context(), run.Succeeded, ""); err != nil {
			b.t.Error(err)
		}
		b.status(first.ID, run.Cancelled)
		if h := b.claim(); h.ID() != next.ID {
			b.t.Errorf("claimed %s, want %s", h.ID(), next.ID)
		}
	})
}

// A run whose slot was lost waits for the turn of the one that works.
func TestARunWithoutASlotInterruptsNoOther(t *testing.T) {
	each(t, func(b *bench) {
		b.start("lost", run.Request{Agent: "other"})
		if _, err := b.sp.Update(t.Context(), func(tx *thole.Tx) error { tx.Delete("slot/%/" + b.id); return nil }); err != nil {
			b.t.Fatal(err)
		}
		b.start("works", run.Request{})
		h := b.claim()
		if _, err := b.rs.Claim(t.Context(), &run.ClaimOptions{Agent: "other"}); !errors.Is(err, thole.ErrNotFound) {
			b.t.Errorf("a claim of the run without a slot: %v, want ErrNotFound", err)
		}
		if err := errors.Join(h.Text(t.Context(), "goes on"), h.Flush(t.Context())); err != nil {
			b.t.Error(err)
		}
		b.finish(h)
	})
}

func TestDoctorGoesOnAfterAMalformedActiveRun(t *testing.T) {
	for _, active := range []string{`run_x\u0000`, `\u0001`, `a//b`, `run_`} {
		each(t, func(b *bench) {
			b.start("first", run.Request{})
			b.claim()
			next := b.start("next", run.Request{})
			b.spoil("slot/%/"+b.id, func(string) string { return `{"active":"` + active + `","queue":["` + next.ID + `"]}` })
			var problems []string
			report := &thole.Report{Note: func(string, ...any) {}, Problem: func(format string, args ...any) {
				problems = append(problems, fmt.Sprintf(format, args...))
			}}
			err := run.Concept.Check(t.Context(), b.sp, report)
			if err != nil || !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, next.ID) }) {
				b.t.Errorf("%s: doctor says %q, %v; want that %s waits", active, problems, err, next.ID)
			}
			b.start("another", run.Request{}) // as doctor says
			if h := b.claim(); h.ID() != next.ID {
				b.t.Errorf("%s: claimed %s, want %s", active, h.ID(), next.ID)
			}
		})
	}
}

func TestAQueuedRunWhoseThreadOrSlotCannotBeReadIsReadAndCancelled(t *testing.T) {
	each(t, func(b *bench) {
		first, next := b.start("first", run.Request{}), b.start("next", run.Request{})
		b.claim()
		b.spoil("slot/%/"+b.id, func(string) string { return "1" })
		b.status(next.ID, run.Queued)
		b.spoil("slot/%/"+b.id, func(string) string { return `{"active":"` + first.ID + `","queue":["` + next.ID + `"],"ahead":-7}` })
		b.spoil(thread.Key(b.id), func(string) string { return "1" })
		b.e.Clock.Advance(time.Hour)
		b.status(first.ID, run.Crashed)
		b.status(next.ID, run.Queued)
		if _, err := b.rs.Cancel(t.Context(), next.ID, run.ByUser); err != nil {
			b.t.Errorf("cancel: %v", err)
		}
		b.status(next.ID, run.Cancelled)
	})
}

// As an admin's raw commit can do.
func TestARunWhoseRecordIsGoneHoldsUpNoOther(t *testing.T) {
	each(t, func(b *bench) {
		gone := b.start("gone", run.Request{})
		b.claim()
		next := b.start("next", run.Request{})
		if _, err := b.sp.Update(t.Context(), func(tx *thole.Tx) error {
			tx.Delete("run/" + gone.ID)
			return nil
		}); err != nil {
			b.t.Fatal(err)
		}
		var said []string
		say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
		if err := run.Concept.Check(t.Context(), b.sp, &thole.Report{Problem: say, Note: say}); err != nil || len(said) != 1 || !strings.Contains(said[0], gone.ID) {
			b.t.Errorf("doctor says %q, %v; want that %s is gone", said, err, gone.ID)
		}
		b.start("last", run.Request{})
		if h := b.claim(); h.ID() != next.ID {
			b.t.Errorf("claimed %s, want %s", h.ID(), next.ID)
		}
	})
}

package run_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
)

func (b *bench) signal(id, name string, n int) {
	b.t.Helper()
	if err := b.rs.Signal(b.t.Context(), id, name, json.RawMessage(strconv.Itoa(n))); err != nil {
		b.t.Fatalf("signal %s: %v", name, err)
	}
}

// taken returns what Wait returns under an idempotency key; "": without one.
func (b *bench) taken(h *run.Handle, name, key string) string {
	b.t.Helper()
	ctx := b.t.Context()
	if key != "" {
		ctx = thole.WithIdempotencyKey(ctx, key, "f")
	}
	data, err := h.Wait(ctx, name)
	if err != nil {
		b.t.Fatalf("wait for %s: %v", name, err)
	}
	return string(data)
}

func (b *bench) reopen() {
	b.t.Helper()
	b.e.Reopen()
	b.open()
}

func (b *bench) attach(h *run.Handle) *run.Handle {
	b.t.Helper()
	h, err := b.rs.Attach(b.t.Context(), h.ID(), h.Fence())
	if err != nil {
		b.t.Fatalf("attach: %v", err)
	}
	return h
}

func TestSignalsOfOneNameAreTakenInTheOrderInWhichTheyCame(t *testing.T) {
	each(t, func(b *bench) {
		r := b.start("go", run.Request{})
		const limit = 64
		for i := range limit { // the first come before the run has begun
			b.signal(r.ID, "answer/1", i)
		}
		if err := b.rs.Signal(t.Context(), r.ID, "answer/1", nil); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("signal %d: got %v, want ErrConflict", limit+1, err)
		}
		b.signal(r.ID, "answer", -1)
		h := b.claim()
		if got := b.status(r.ID, run.Running).Signals; got["answer/1"] != limit || got["answer"] != 1 {
			t.Errorf("signals: got %v", got)
		}
		for i := range limit {
			if got := b.taken(h, "answer/1", ""); got != strconv.Itoa(i) {
				t.Fatalf("got %s, want %d", got, i)
			}
			if i == 0 {
				b.signal(r.ID, "answer/1", limit) // there is room again
			}
		}
		if got := b.taken(h, "answer/1", "") + b.taken(h, "answer", ""); got != "64-1" {
			t.Errorf("the last ones: got %s", got)
		}
		if got := b.status(r.ID, run.Running).Signals; len(got) > 0 {
			t.Errorf("when all are taken: got %v", got)
		}
	})
}

func TestAnAcknowledgedSignalIsThereWhereverTheProcessDies(t *testing.T) {
	each(t, func(b *bench) {
		r := b.start("go", run.Request{})
		h := b.claim()
		n := 0
		statetest.AtEachCut(func(cut statetest.Cut) bool {
			n++
			name := fmt.Sprint("answer", n)
			died := b.e.DieAt(cut)
			b.open()
			signal := func() error {
				return b.rs.Signal(thole.WithIdempotencyKey(t.Context(), name, "f"), r.ID, name, json.RawMessage("1"))
			}
			err := signal()
			dead := died()
			if dead != (err != nil) {
				t.Errorf("%+v: dead %v, got %v", cut, dead, err)
			}
			b.reopen()
			if err := signal(); err != nil {
				t.Errorf("%+v: repeated: %v", cut, err)
			}
			if got := b.status(r.ID, run.Running).Signals[name]; got != 1 {
				t.Errorf("%+v: %d signals, want 1", cut, got)
			}
			if got := b.taken(b.attach(h), name, ""); got != "1" {
				t.Errorf("%+v: got %q", cut, got)
			}
			return dead
		})
	})
}

func TestARepeatedWaitGetsTheSignalAgain(t *testing.T) {
	each(t, func(b *bench) {
		r := b.start("go", run.Request{})
		h := b.claim()
		n := 0
		statetest.AtEachCut(func(cut statetest.Cut) bool {
			n++
			name := fmt.Sprint("answer", n)
			b.signal(r.ID, name, 1)
			b.signal(r.ID, name, 2)
			died := b.e.DieAt(cut)
			b.open()
			_, err := b.attach(h).Wait(thole.WithIdempotencyKey(t.Context(), name, "f"), name)
			dead := died()
			if dead != (err != nil) {
				t.Errorf("%+v: dead %v, got %v", cut, dead, err)
			}
			b.reopen()
			for range 2 {
				if got := b.taken(b.attach(h), name, name); got != "1" {
					t.Errorf("%+v: repeated: got %s, want the first signal", cut, got)
				}
			}
			if got := b.taken(b.attach(h), name, name+" next"); got != "2" {
				t.Errorf("%+v: the next wait: got %s, want the second signal", cut, got)
			}
			return dead
		})
		// The answer is lost, and the run ends.
		b.signal(r.ID, "late", 7)
		b.taken(b.attach(h), "late", "late")
		b.e.Clock.Advance(time.Hour)
		if err := b.e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.status(r.ID, run.Crashed)
		data, err := b.rs.Attach(thole.WithIdempotencyKey(t.Context(), "late", "f"), h.ID(), h.Fence())
		if err != nil {
			t.Fatal(err)
		}
		if got := b.taken(data, "late", "late"); got != "7" {
			t.Errorf("repeated after the run crashed: got %s", got)
		}
	})
}

func TestAWaitWhoseAnswerWasLostGetsTheSignalFromTheSameHandle(t *testing.T) {
	each(t, func(b *bench) {
		for _, applied := range []bool{true, false} {
			r := b.start("go", run.Request{})
			h := b.claim()
			b.signal(r.ID, "answer", 1)
			b.signal(r.ID, "answer", 2)
			b.e.DieAt(statetest.Cut{Commit: 1, Applied: applied, Once: true})
			b.open()
			h = b.attach(h)
			if _, err := h.Wait(t.Context(), "answer"); !errors.Is(err, statetest.ErrDead) {
				t.Fatalf("got %v, want ErrDead", err)
			}
			if got := b.taken(h, "answer", "") + b.taken(h, "answer", ""); got != "12" {
				t.Errorf("applied %v: got %s, want 12", applied, got)
			}
			if _, err := h.Finish(t.Context(), run.Succeeded, ""); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestSignalsThatWereNotTakenGoOverToTheRunThatResumes(t *testing.T) {
	each(t, func(b *bench) {
		old := b.start("go", run.Request{})
		h := b.claim()
		for i := range 3 {
			b.signal(old.ID, "answer", i)
		}
		b.signal(old.ID, "other", 9)
		if got := b.taken(h, "answer", ""); got != "0" {
			t.Fatalf("got %s", got)
		}
		if err := h.Text(t.Context(), "used"); err != nil {
			t.Fatal(err)
		}
		statetest.AtEachCut(func(cut statetest.Cut) bool {
			b.e.Clock.Advance(time.Hour) // the worker is dead
			old = b.status(old.ID, run.Crashed)
			if old.Signals["answer"] != 2 || old.Signals["other"] != 1 {
				t.Errorf("%+v: the crashed run has %v", cut, old.Signals)
			}
			died := b.e.DieAt(cut)
			b.open()
			resume := func() (*run.Run, error) {
				return b.rs.Resume(thole.WithIdempotencyKey(t.Context(), old.ID, "f"), old.ID)
			}
			_, err := resume()
			dead := died()
			if dead != (err != nil) {
				t.Errorf("%+v: dead %v, got %v", cut, dead, err)
			}
			b.reopen()
			resumed, err := resume()
			if err != nil {
				t.Fatalf("%+v: resume: %v", cut, err)
			}
			if resumed.Signals["answer"] != 2 || resumed.Signals["other"] != 1 {
				t.Errorf("%+v: resumed with %v", cut, resumed.Signals)
			}
			if left := b.status(old.ID, run.Crashed).Signals; len(left) > 0 {
				t.Errorf("%+v: the old run kept %v", cut, left)
			}
			if h = b.claim(); h.ID() != resumed.ID {
				t.Fatalf("claimed %s, want %s", h.ID(), resumed.ID)
			}
			old = resumed
			return dead
		})
		b.signal(old.ID, "answer", 3)
		if got := b.taken(h, "answer", "") + b.taken(h, "answer", "") + b.taken(h, "answer", "") + b.taken(h, "other", ""); got != "1239" {
			t.Errorf("got %s, want the signals that were not taken, in their order", got)
		}
	})
}

func TestASignalToARunWhoseWorkerIsDeadIsRefused(t *testing.T) {
	each(t, func(b *bench) {
		r := b.start("go", run.Request{})
		b.claim()
		b.e.Clock.Advance(time.Hour) // and nobody has noticed
		if err := b.rs.Signal(t.Context(), r.ID, "answer", nil); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("got %v, want ErrConflict", err)
		}
		b.status(r.ID, run.Crashed)
	})
}

func TestASignalOfAnEarlierVersionIsTaken(t *testing.T) {
	each(t, func(b *bench) {
		r := b.start("go", run.Request{})
		h := b.claim()
		_, err := b.sp.Update(t.Context(), func(tx *thole.Tx) error {
			for _, name := range []string{"a%2Fb", "c", "d"} { // as it is stored
				tx.Put("run/"+r.ID+"/signal/"+name, map[string]int{"data": 5}, nil)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.taken(h, "d", ""); got != "5" {
			t.Errorf("got %s, want 5", got)
		}
		b.e.Clock.Advance(time.Hour)
		if _, err := b.rs.Resume(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
		h = b.claim()
		b.signal(h.ID(), "c", 6)
		if got := b.taken(h, "a/b", "") + b.taken(h, "c", "") + b.taken(h, "c", ""); got != "556" {
			t.Errorf("after a resume: got %s, want 556", got)
		}
	})
}

func TestASignalWhoseTakerDiedBeforeItActedGoesOverToTheRunThatResumes(t *testing.T) {
	each(t, func(b *bench) {
		r := b.start("go", run.Request{})
		h := b.claim()
		resume := func() {
			t.Helper()
			b.e.Clock.Advance(time.Hour) // the worker is dead
			next, err := b.rs.Resume(t.Context(), h.ID())
			if err != nil {
				t.Fatalf("resume: %v", err)
			}
			if h = b.claim(); h.ID() != next.ID {
				t.Fatalf("claimed %s, want %s", h.ID(), next.ID)
			}
			b.reopen()
			h = b.attach(h)
		}
		left := func(want int) {
			t.Helper()
			if got := b.status(h.ID(), run.Running).Signals["approval"]; got != want {
				t.Errorf("%d signals, want %d", got, want)
			}
		}
		for i := range 4 {
			b.signal(r.ID, "approval", i)
		}
		for range 2 { // it dies twice in the same place
			if got := b.taken(h, "approval", "") + b.taken(h, "approval", ""); got != "01" {
				t.Fatalf("got %s, want 01", got)
			}
			resume()
			left(4)
		}
		acts := []func() error{
			func() error { return h.Text(t.Context(), "paid") },
			func() error { _, err := h.StartTool(t.Context(), "pay", nil, ""); return err },
			func() error {
				_, err := b.rs.Start(t.Context(), "", run.Request{Prompt: "sub", Agent: "other", Parent: h.ID()})
				return err
			},
		}
		for i, act := range acts { // what was taken before it is used, what was taken after is not
			if got := b.taken(h, "approval", ""); got != strconv.Itoa(i) {
				t.Errorf("act %d: got %s", i, got)
			}
			if err := act(); err != nil {
				t.Fatal(err)
			}
			if got := b.taken(h, "approval", ""); got != strconv.Itoa(i+1) {
				t.Errorf("after act %d: got %s", i, got)
			}
			resume()
			left(3 - i)
		}
		if got := b.taken(h, "approval", ""); got != "3" {
			t.Errorf("got %s, want 3", got)
		}
		for i := range 40 { // more than a run keeps
			b.signal(h.ID(), "approval", i)
			b.taken(h, "approval", "")
		}
		b.signal(h.ID(), "approval", 40)
		resume()
		left(17)
		if got := b.taken(h, "approval", ""); got != "24" {
			t.Errorf("got %s, want the first of the newest 16", got)
		}
		b.finish(h)
		if got, err := b.sp.List(t.Context(), thole.ListQuery{Prefix: "run/" + h.ID() + "/taken/"}); err != nil || len(got) > 0 {
			t.Errorf("after success: got %v, %v", got, err)
		}
	})
}

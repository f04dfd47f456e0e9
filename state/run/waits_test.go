package run_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// waitsFor checks which signals the run and its thread say that the run waits for.
func (b *bench) waitsFor(id string, names ...string) {
	b.t.Helper()
	want, head, first := run.Running, thread.Busy, ""
	if len(names) > 0 {
		want, head, first = run.Waiting, thread.Waiting, names[0]
	}
	r := b.status(id, want)
	if !slices.Equal(r.Waits, names) || r.WaitingFor != first {
		b.t.Errorf("the run waits for %q, first %q; want %q", r.Waits, r.WaitingFor, names)
	}
	if got := b.head().Status; got != head {
		b.t.Errorf("the thread is %s, want %s", got, head)
	}
}

// told returns the types of the run's events about waiting so far, with the signal's
// name and the status.
func (b *bench) told(id string) string {
	b.t.Helper()
	var out []string
	for e, err := range b.sp.Events(b.t.Context(), thole.ReadQuery{Types: []string{"run.waiting", "run.signalled", "run.updated"}}) {
		var d run.SignalledData // run.waiting has no status
		if err == nil {
			err = e.As(&d)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		if d.Run == id {
			out = append(out, strings.TrimSpace(strings.TrimPrefix(e.Type, "run.")+" "+d.Signal+" "+d.Status))
		}
	}
	return strings.Join(out, ", ")
}

func TestToolsSideBySideWaitEachForItsOwnSignal(t *testing.T) {
	each(t, func(b *bench) {
		ctx := t.Context()
		w, err := b.sp.Watch(ctx, &thole.WatchOptions{Types: []string{"run.waiting"}, Durable: true})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		r := b.start("pay twice", run.Request{})
		h := b.claim()
		got := map[string]chan string{"a": make(chan string, 1), "b": make(chan string, 1)}
		ended := make(chan error, 1)
		go func() {
			ended <- h.Do(ctx, func(ctx context.Context, h *run.Handle) error {
				errs := make(chan error, len(got))
				for name, c := range got {
					go func() {
						data, err := h.Wait(ctx, name)
						c <- string(data)
						errs <- err
					}()
				}
				return errors.Join(<-errs, <-errs)
			})
		}()
		for n := 0; n < len(got); {
			ds, err := w.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			n += len(ds)
		}
		waits := b.status(r.ID, run.Waiting).Waits
		if len(waits) != 2 {
			t.Fatalf("the run waits for %q, want both", waits)
		}
		b.waitsFor(r.ID, waits...)
		first, second := waits[0], waits[1]
		b.signal(r.ID, second, 2)
		if data := <-got[second]; data != "2" {
			t.Errorf("%s: got %s", second, data)
		}
		b.waitsFor(r.ID, first)
		b.signal(r.ID, first, 1)
		if data := <-got[first]; data != "1" {
			t.Errorf("%s: got %s", first, data)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		want := fmt.Sprintf("waiting %s, waiting %s, signalled %s waiting, signalled %s running", first, second, second, first)
		if told := b.told(r.ID); told != want {
			t.Errorf("told %s; want %s", told, want)
		}
	})
}

// over calls h.Wait with a context that ends once the run waits.
func (b *bench) over(h *run.Handle, name string) {
	b.t.Helper()
	w, err := b.sp.Watch(b.t.Context(), &thole.WatchOptions{Types: []string{"run.waiting"}, Durable: true})
	if err != nil {
		b.t.Fatal(err)
	}
	defer w.Close()
	errEnough := errors.New("enough")
	ctx, stop := context.WithCancelCause(b.t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := h.Wait(ctx, name)
		ended <- err
	}()
	if _, err := w.Next(ctx); err != nil {
		b.t.Fatal(err)
	}
	stop(errEnough)
	if err := <-ended; !errors.Is(err, errEnough) {
		b.t.Fatalf("wait: got %v", err)
	}
}

func TestARunThatGoesOnAfterAWaitInVainDoesNotWait(t *testing.T) {
	each(t, func(b *bench) {
		ctx := t.Context()
		var block string
		acts := []func(h *run.Handle) error{
			func(h *run.Handle) error { return h.Text(ctx, "nobody answered") },
			func(h *run.Handle) (err error) { block, err = h.StartTool(ctx, "ask", nil, ""); return err },
			func(h *run.Handle) error {
				return h.FinishTool(ctx, block, thread.ToolResult{Result: []byte(`"nobody"`)})
			},
			func(h *run.Handle) error {
				_, err := h.Block(ctx, thread.Block{Type: thread.Text, Content: "well"})
				return err
			},
			func(h *run.Handle) error {
				_, err := h.Update(ctx, func(*thole.Tx) error { return nil })
				return err
			},
		}
		r := b.start("pay", run.Request{})
		h := b.claim()
		want := ""
		for i, act := range acts {
			name := fmt.Sprint("approval", i)
			b.over(h, name)
			b.waitsFor(r.ID, name) // it may be asked again
			for range 2 {
				if err := act(h); err != nil && i != 2 { // a tool ends once
					t.Fatalf("act %d: %v", i, err)
				}
				b.waitsFor(r.ID)
			}
			want += fmt.Sprintf("waiting %s, updated %s running, ", name, name)
		}
		if told := b.told(r.ID) + ", "; told != want {
			t.Errorf("told %s; want %s", told, want)
		}
		// The next wait replaces the last one.
		b.over(h, "x")
		b.over(h, "y")
		b.waitsFor(r.ID, "y")
		b.signal(r.ID, "x", 1) // late, but it is kept
		b.waitsFor(r.ID, "y")
		if got := b.taken(h, "x", ""); got != "1" {
			t.Errorf("got %s", got)
		}
		b.over(h, "z")
		if _, err := h.Finish(ctx, run.Succeeded, ""); err != nil {
			t.Fatal(err)
		}
		if r := b.status(r.ID, run.Succeeded); len(r.Waits) > 0 || r.WaitingFor != "" {
			t.Errorf("an ended run waits for %q", r.Waits)
		}
	})
}

// What one tool does ends no wait of another tool.
func TestAToolThatWorksEndsNoWaitOfAnother(t *testing.T) {
	each(t, func(b *bench) {
		ctx := t.Context()
		r := b.start("pay", run.Request{})
		h := b.claim()
		w, err := b.sp.Watch(ctx, &thole.WatchOptions{Types: []string{"run.waiting"}, Durable: true})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		got := make(chan string, 1)
		go func() {
			data, _ := h.Wait(ctx, "a")
			got <- string(data)
		}()
		if _, err := w.Next(ctx); err != nil {
			t.Fatal(err)
		}
		b.over(h, "b")
		b.waitsFor(r.ID, "a", "b")
		if err := h.Text(ctx, "meanwhile"); err != nil {
			t.Fatal(err)
		}
		b.waitsFor(r.ID, "a")
		b.signal(r.ID, "a", 1)
		if data := <-got; data != "1" {
			t.Errorf("got %s", data)
		}
		b.waitsFor(r.ID)
	})
}

func TestARunWaitsForABoundedNumberOfNames(t *testing.T) {
	each(t, func(b *bench) {
		ctx, stop := context.WithCancel(t.Context())
		r := b.start("pay", run.Request{})
		h := b.claim()
		const limit = 64
		errs := make(chan error, limit+1)
		for i := range limit + 1 {
			go func() {
				_, err := h.Wait(ctx, fmt.Sprint("approval", i))
				errs <- err
			}()
		}
		if err := <-errs; !errors.Is(err, thole.ErrConflict) {
			t.Errorf("got %v, want ErrConflict", err)
		}
		if n := len(b.status(r.ID, run.Waiting).Waits); n != limit {
			t.Errorf("the run waits for %d names, want %d", n, limit)
		}
		stop()
		for range limit {
			<-errs
		}
	})
}

func TestARunOfAnEarlierVersionThatWaitsGoesOn(t *testing.T) {
	each(t, func(b *bench) {
		r := b.start("pay", run.Request{})
		h := b.claim()
		_, err := b.sp.Update(t.Context(), func(tx *thole.Tx) error {
			var v map[string]any
			if _, err := tx.Load("run/"+r.ID, &v); err != nil {
				return err
			}
			v["status"], v["waiting_for"] = run.Waiting, "old"
			tx.Put("run/"+r.ID, v, nil)
			return thread.SetActive(tx, b.id, r.ID, thread.Waiting)
		})
		if err != nil {
			t.Fatal(err)
		}
		b.waitsFor(r.ID, "old")
		b.signal(r.ID, "old", 1)
		b.waitsFor(r.ID)
		if got := b.taken(h, "old", ""); got != "1" {
			t.Errorf("got %s", got)
		}
	})
}

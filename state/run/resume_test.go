package run_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
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

package run_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// The end of a run, of whatever kind, does not use up a signal that it took.
func TestTheEndOfARunUsesUpNoSignalThatItTook(t *testing.T) {
	interrupted := func(policy string) func(b *bench, h *run.Handle) {
		return func(b *bench, h *run.Handle) {
			b.start("instead", run.Request{Policy: policy})
			b.finish(h)
			b.finish(b.claim())
		}
	}
	cancelled := func(cause string) func(b *bench, h *run.Handle) {
		return func(b *bench, h *run.Handle) {
			if _, err := b.rs.Cancel(b.t.Context(), h.ID(), cause); err != nil {
				b.t.Fatal(err)
			}
			b.finish(h)
		}
	}
	failed := func(reason string) func(b *bench, h *run.Handle) {
		return func(b *bench, h *run.Handle) {
			if _, err := h.Finish(b.t.Context(), run.Failed, reason); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	ends := map[string]func(b *bench, h *run.Handle){
		"shutdown":             cancelled(run.ByShutdown),
		"user":                 cancelled(run.ByUser),
		"timeout":              cancelled(run.ByTimeout),
		"interrupt":            interrupted(run.Interrupt),
		"rollback":             interrupted(run.Rollback),
		"failed":               failed("deploy"),
		"failed for no reason": failed(""),
		"crashed":              func(b *bench, _ *run.Handle) { b.e.Clock.Advance(time.Hour) },
	}
	acts := map[string]func(ctx context.Context, h *run.Handle) error{
		"":     func(context.Context, *run.Handle) error { return nil },
		"text": func(ctx context.Context, h *run.Handle) error { return h.Text(ctx, "paid") },
		"error block": func(ctx context.Context, h *run.Handle) error {
			_, err := h.Block(ctx, thread.Block{Type: thread.Failure, Content: "deploy"})
			return err
		},
	}
	each(t, func(b *bench) {
		ctx := t.Context()
		for end, doEnd := range ends {
			for act, doAct := range acts {
				th, err := b.ts.Create(ctx, &thread.CreateOptions{Assistant: "coder"})
				if err != nil {
					t.Fatal(err)
				}
				b.id = th.ID
				r := b.start("pay", run.Request{})
				h := b.claim()
				if _, err := h.StartTool(ctx, "pay", nil, ""); err != nil {
					t.Fatal(err)
				}
				if err := h.Text(ctx, "may I?"); err != nil {
					t.Fatal(err)
				}
				b.signal(r.ID, "approval", 1)
				b.taken(h, "approval", "")
				if err := doAct(ctx, h); err != nil {
					t.Fatal(err)
				}
				doEnd(b, h)
				next, err := b.rs.Resume(ctx, r.ID)
				if err != nil {
					t.Fatalf("%s: resume: %v", end, err)
				}
				want := 0
				if act == "" {
					want = 1
				}
				if got := next.Signals["approval"]; got != want {
					t.Errorf("%s after %q: resumed with %d approvals, want %d", end, act, got, want)
				}
				h = b.claim()
				if want == 1 && next.Signals["approval"] == 1 {
					if got := b.taken(h, "approval", ""); got != "1" {
						t.Errorf("%s: got %s", end, got)
					}
				}
				b.finish(h)
			}
		}
	})
}

// Text that is committed with the end of the run was still written by the run.
func TestTextThatComesWithTheEndOfARunUsesUpWhatItTook(t *testing.T) {
	each(t, func(b *bench) {
		ctx := t.Context()
		b.rs = run.In(b.sp, &run.Options{Flush: time.Hour, FlushBytes: 1 << 20})
		for text, want := range map[string]int{"": 1, "paid": 0} {
			r := b.start("pay", run.Request{})
			h := b.claim()
			b.signal(r.ID, "approval", 1)
			boom := errors.New("boom")
			err := h.Do(ctx, func(ctx context.Context, h *run.Handle) error {
				if data, err := h.Wait(ctx, "approval"); err != nil || string(data) != "1" {
					t.Errorf("wait: got %s, %v", data, err)
				}
				if err := h.Text(ctx, text); err != nil {
					return err
				}
				return boom
			})
			if !errors.Is(err, boom) {
				t.Fatalf("got %v", err)
			}
			next, err := b.rs.Resume(ctx, r.ID)
			if err != nil {
				t.Fatal(err)
			}
			if got := next.Signals["approval"]; got != want {
				t.Errorf("text %q: resumed with %d approvals, want %d", text, got, want)
			}
			b.finish(b.claim())
		}
	})
}

// What was removed from the journal may have been an act of the run: a signal is not
// delivered again because of a removal.
func TestASignalThatWasUsedStaysUsedWhateverIsRemoved(t *testing.T) {
	for _, c := range []struct {
		name  string
		acts  bool
		purge func(b *bench, started, acted thole.Position) thole.Purge
		want  int
	}{
		{"trimmed", true, func(b *bench, _, acted thole.Position) thole.Purge {
			acted.Seq++
			return thole.Purge{Before: acted}
		}, 0},
		{"stream", true, func(b *bench, _, _ thole.Position) thole.Purge {
			return thole.Purge{Streams: []string{thread.Key(b.id)}}
		}, 0},
		{"redacted", true, func(b *bench, started, acted thole.Position) (p thole.Purge) {
			for started.Seq < acted.Seq {
				started.Seq++
				p.Events = append(p.Events, started)
			}
			return p
		}, 0},
		{"trimmed before it began", false, func(b *bench, started, _ thole.Position) thole.Purge {
			return thole.Purge{Before: started}
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(b *bench) {
				r := b.start("go", run.Request{})
				h := b.claim()
				started := b.end()
				b.signal(r.ID, "approval", 0)
				if got := b.taken(h, "approval", ""); got != "0" {
					t.Fatal(got)
				}
				if c.acts {
					if _, err := h.StartTool(t.Context(), "pay", nil, ""); err != nil {
						t.Fatal(err)
					}
				}
				acted := b.end()
				if _, err := b.sp.Commit(t.Context(), thole.Commit{Events: []thole.Event{{Stream: "app/x", Type: "app.seen"}}}); err != nil {
					t.Fatal(err)
				}
				if err := b.sp.Purge(t.Context(), c.purge(b, started, acted)); err != nil {
					t.Fatal(err)
				}
				b.e.Clock.Advance(time.Hour)
				next, err := b.rs.Resume(t.Context(), r.ID)
				if err != nil {
					t.Fatal(err)
				}
				if got := next.Signals["approval"]; got != c.want {
					t.Errorf("the run that resumes has %d approvals, want %d", got, c.want)
				}
			})
		})
	}
}

// end returns the last position of the journal.
func (b *bench) end() thole.Position {
	b.t.Helper()
	head, err := b.sp.Head(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return head.Last
}

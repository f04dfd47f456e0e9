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

// twice calls do as a client that lost the first answer does.
func twice[T comparable](b *bench, key string, do func(context.Context) (T, error)) {
	b.t.Helper()
	var got [2]T
	for i := range got {
		var err error
		if got[i], err = do(thole.WithIdempotencyKey(b.t.Context(), key, "same")); err != nil {
			b.t.Errorf("%s: call %d: %v", key, i+1, err)
		}
	}
	if got[0] != got[1] {
		b.t.Errorf("%s: got %v, then %v", key, got[0], got[1])
	}
}

func TestARepeatedCallOfAWorkerGivesTheFirstAnswer(t *testing.T) {
	each(t, func(b *bench) {
		b.start("go", run.Request{})
		var h *run.Handle
		twice(b, "claim", func(ctx context.Context) (string, error) {
			var err error
			if h, err = b.rs.Claim(ctx, &run.ClaimOptions{Agent: "coder"}); err != nil {
				return "", err
			}
			return h.ID() + h.Turn() + h.Fence().Key + h.Request()[0].Content, nil
		})
		twice(b, "tool", func(ctx context.Context) (string, error) { return h.StartTool(ctx, "Bash", nil, "") })
		twice(b, "block", func(ctx context.Context) (string, error) { return h.Block(ctx, thread.TextBlock("hi")) })
		if got, want := b.said(), "u:go a:Bash=streaming a:hi"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		twice(b, "finish", func(ctx context.Context) (string, error) {
			h, err := b.rs.Attach(ctx, h.ID(), h.Fence())
			if err != nil {
				return "", err
			}
			r, err := h.Finish(ctx, run.Succeeded, "")
			if err != nil {
				return "", err
			}
			return r.Status + r.Version.String(), nil
		})
		if _, err := b.rs.Attach(t.Context(), h.ID(), h.Fence()); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("attach to an ended run: got %v, want ErrFenced", err)
		}
	})
}

func TestARepeatedCancelGivesTheFirstAnswer(t *testing.T) {
	each(t, func(b *bench) {
		b.start("active", run.Request{})
		r := b.start("queued", run.Request{})
		twice(b, "cancel", func(ctx context.Context) (string, error) {
			r, err := b.rs.Cancel(ctx, r.ID, run.ByUser)
			if err != nil {
				return "", err
			}
			return r.Status, nil
		})
	})
}

func TestARepeatedCallLosesNoTextThatWaits(t *testing.T) {
	each(t, func(b *bench) {
		rs := run.In(b.sp, &run.Options{Flush: time.Hour})
		err := rs.Do(t.Context(), b.id, run.Request{Prompt: "go"}, func(ctx context.Context, h *run.Handle) error {
			start := func() (string, error) {
				return h.StartTool(thole.WithIdempotencyKey(ctx, "tool", "same"), "T", nil, "")
			}
			if err := h.Text(ctx, "before"); err != nil {
				return err
			}
			block, err := start()
			if err != nil {
				return err
			}
			if err := h.FinishTool(ctx, block, thread.ToolResult{}); err != nil {
				return err
			}
			if err := h.Text(ctx, "after"); err != nil {
				return err
			}
			if again, err := start(); err != nil || again != block {
				t.Errorf("again: got %s, %v; want %s", again, err, block)
			}
			return h.Text(ctx, "wards")
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := b.said(), "u:go a:before a:T=done a:after a:wards"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestAKeyOfAWaitIsForOneName(t *testing.T) {
	each(t, func(b *bench) {
		r := b.start("go", run.Request{})
		b.signal(r.ID, "a", 1)
		b.signal(r.ID, "b", 2)
		h, err := b.rs.Claim(t.Context(), &run.ClaimOptions{Agent: "coder"})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.taken(h, "a", "k"); got != "1" {
			t.Errorf("a: got %s, want 1", got)
		}
		if data, err := h.Wait(thole.WithIdempotencyKey(t.Context(), "k", "f"), "b"); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("another name under the key: got %s, %v; want ErrInvalid", data, err)
		}
		if got := b.taken(h, "a", "k") + b.taken(h, "b", "l"); got != "12" {
			t.Errorf("a again, then b: got %s, want 12", got)
		}
	})
}

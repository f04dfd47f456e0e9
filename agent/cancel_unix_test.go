//go:build unix

package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

func (e *env) pids() []int {
	data, _ := os.ReadFile(filepath.Join(e.dir, "pids.txt"))
	var pids []int
	for _, line := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(line); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// wantNothingAfter checks that no tool was started after the cancel.
func wantNothingAfter(t *testing.T, e *env) {
	t.Helper()
	cancelled := false
	for _, ev := range e.events("run.cancel_requested", "tool.started", "decision.planned") {
		switch {
		case ev.Type == "run.cancel_requested":
			cancelled = true
		case cancelled:
			t.Errorf("%s at %s, after the cancel: %s", ev.Type, ev.Position, ev.Data)
		}
	}
	if e.exists("after.txt") {
		t.Error("a tool ran after the cancel")
	}
}

func TestCancelEndsACommandThatForksTwiceAndAllThatWouldFollow(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ids := make(chan string, 1)
		a := e.agent("slow", func(o *Options) {
			o.Hooks.BeforeRun = func(_ context.Context, c *Context, _ *Request) error { ids <- c.Run; return nil }
		})
		wait := e.background(a, t.Context(), "Start a stubborn server")
		until(t, "processes", func() bool { return e.exists("started.txt") && len(e.pids()) == 2 })
		if _, err := run.In(e.sp, nil).Cancel(t.Context(), <-ids, run.ByUser); err != nil {
			t.Fatal(err)
		}
		r, err := wait()
		if !errors.Is(err, thole.ErrCancelled) || r.Status != run.Cancelled || r.Cancel.Cause != run.ByUser {
			t.Fatalf("run %+v, %v; want cancelled by user", r, err)
		}
		for _, pid := range e.pids() {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d is still there: %v", pid, err)
			}
		}
		wantNothingAfter(t, e)
		tools := e.last(thread.ToolUse)
		if len(tools) != 1 || tools[0].Status != thread.Error {
			t.Fatalf("tool blocks %+v, want one that failed", tools)
		}
		wantContains(t, "the block", result(t, tools[0]), "cancelled by user")
	})
}

func TestCancelStopsSubAgents(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ids := make(chan string, 2)
		a := e.agent("team", func(o *Options) {
			o.Hooks.BeforeRun = func(_ context.Context, c *Context, _ *Request) error { ids <- c.Run; return nil }
		})
		wait := e.background(a, t.Context(), "Let a sub-agent sleep")
		until(t, "the sub-agent", func() bool { return e.exists("started.txt") })
		parent, child := <-ids, <-ids
		if _, err := run.In(e.sp, nil).Cancel(t.Context(), parent, run.ByCredits); err != nil {
			t.Fatal(err)
		}
		if r, err := wait(); r.Status != run.Cancelled || r.Cancel.Cause != run.ByCredits {
			t.Errorf("run %+v, %v; want cancelled by credits", r, err)
		}
		sub, err := run.In(e.sp, nil).Get(t.Context(), child)
		if err != nil || sub.Status != run.Cancelled || sub.Parent != parent {
			t.Errorf("sub-agent's run %+v, %v; want cancelled, under %s", sub, err, parent)
		}
		wantNothingAfter(t, e)
	})
}

func TestTheEndOfTheCallersContextIsADisconnect(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx, cancel := context.WithCancel(t.Context())
		wait := e.background(e.agent("team", nil), ctx, "Sleep as long as you can")
		until(t, "the command", func() bool { return e.exists("started.txt") })
		cancel()
		if r, err := wait(); r == nil || r.Status != run.Cancelled || r.Cancel.Cause != run.ByDisconnect {
			t.Errorf("run %+v, %v; want cancelled by disconnect", r, err)
		}
	})
}

func TestSubAgentsShareTheTaskListAndTheFiles(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		var touched []string
		e.ask(e.agent("team", func(o *Options) {
			o.Hooks.AfterRun = func(_ context.Context, c *Context, _ error) {
				if c.Depth == 0 {
					touched = c.FilesTouched()
				}
			}
		}), "Ask a sub-agent for a footer", run.Succeeded)
		wantContains(t, "Footer.js", e.file("src/components/Footer.js"), "function Footer")
		if len(touched) != 1 || touched[0] != "src/components/Footer.js" {
			t.Errorf("files touched %v, want the sub-agent's", touched)
		}
		tools := e.last(thread.ToolUse)
		if len(tools) != 2 {
			t.Fatalf("%d tool blocks in the parent's turn, want its own two", len(tools))
		}
		wantContains(t, "the task's result", result(t, tools[1]), "The footer is written.")
	})
}

func TestARunThatCancelsItselfBeginsNothingMore(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("turns:\n  - prompt: Write it\n    steps:\n      - tool_calls: [{name: Write, input: {file_path: after.txt, content: a}}]\n      - text: Done.\n",
			func(o *Options) {
				o.Hooks.BeforeTool = func(ctx context.Context, c *Context, _ *Call) error { return c.Cancel(ctx, run.ByCredits) }
			})
		if r := e.ask(a, "Write it", run.Cancelled); r.Cancel.Cause != run.ByCredits {
			t.Errorf("cause %q, want credits", r.Cancel.Cause)
		}
		wantNothingAfter(t, e)
	})
}

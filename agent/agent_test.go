package agent

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/history"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

func TestTheSampleEditsTheFilesInThreeTurns(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("sample", nil)
		r := e.ask(a, "Create a button component", run.Succeeded)
		wantContains(t, "Button.js", e.file("src/components/Button.js"), "background: lightgray")
		wantContains(t, "App.js", e.file("src/App.js"), "Button({ label: 'Press me' })")
		if u := r.Usage["script"]; r.Model != "script" || u.InputTokens < 2400 || u.TotalTokens != u.InputTokens+u.OutputTokens {
			t.Errorf("model %q, usage %+v; want what the model reported", r.Model, r.Usage)
		}
		tools := e.last(thread.ToolUse)
		last := result(t, tools[len(tools)-1])
		wantContains(t, "the last tool's result", last, "\n\n=== Current Task List ===\n✅ [1] Create the Button component (high priority)\n")
		if !strings.HasSuffix(last, "\n"+strings.Repeat("=", 24)) {
			t.Errorf("the last tool's result ends %q, want the list's rule", last[len(last)-30:])
		}

		e.ask(a, "Make it blue", run.Succeeded)
		wantContains(t, "Button.js", e.file("src/components/Button.js"), "background: royalblue; color: white")
		e.ask(a, "Add a click handler", run.Succeeded)
		wantContains(t, "Button.js", e.file("src/components/Button.js"), "    onClick,\n")
		wantContains(t, "App.js", e.file("src/App.js"), "onClick: () => alert('Pressed')")
	})
}

func TestTheSampleCanBePlayedAgainAndInASecondThread(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("sample", nil)
		play := func() string {
			for _, prompt := range []string{"Create a button component", "Make it blue", "Add a click handler"} {
				e.ask(a, prompt, run.Succeeded)
			}
			return e.file("src/App.js") + e.file("src/components/Button.js")
		}
		first := play()
		if again := play(); again != first {
			t.Errorf("played again in its thread: got %s, want the result of the first time: %s", again, first)
		}
		th, err := thread.In(e.sp).Create(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		e.thread = th.ID
		if again := play(); again != first {
			t.Errorf("played in a second thread: got %s, want the result of the first time: %s", again, first)
		}
	})
}

func TestTheSampleSaysHowToBeginAgain(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("sample", nil)
		e.ask(a, "Create a button component", run.Succeeded)
		e.ask(a, "Make it blue", run.Succeeded)
		before := e.file("src/App.js") + e.file("src/components/Button.js")
		r := e.ask(a, "Make it blue", run.Failed)
		wantContains(t, "the run's error", r.Error, `ask "Create a button component" to begin again`)
		if after := e.file("src/App.js") + e.file("src/components/Button.js"); after != before {
			t.Errorf("files: got %s, want them as they were", after)
		}
		e.write("src/App.js", "someone else's\n")
		r = e.ask(a, "Create a button component", run.Failed)
		wantContains(t, "the run's error", r.Error, "remove the project's folder (thole-sample) and start it anew")
	})
}

func TestWithoutToolHistoryTheSecondTurnKnowsNoFile(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("sample", func(o *Options) {
			o.ToolHistory = func(c history.ToolCall) (history.ToolCall, bool) { return c, false }
		})
		e.ask(a, "Create a button component", run.Succeeded)
		before := e.file("src/components/Button.js")
		r := e.ask(a, "Make it blue", run.Failed)
		wantContains(t, "the run's error", r.Error, `the script expects "Tools called:"`)
		if blocks := e.last(thread.Failure); len(blocks) != 1 || blocks[0].Content != r.Error {
			t.Errorf("error blocks %v, want the run's error", blocks)
		}
		if e.file("src/components/Button.js") != before {
			t.Error("Button.js was changed")
		}
	})
}

func TestReadsThatFollowEachOtherRunSideBySide(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		var both sync.WaitGroup
		both.Add(2)
		a := e.agent(`turns:
  - prompt: Look
    steps:
      - tool_calls:
          - {name: Read, input: {file_path: src/App.js}}
          - {name: Read, input: {file_path: index.html}}
      - expect: ["[tool_result Read]"]
        text: Done.
`, func(o *Options) {
			o.Hooks.BeforeTool = func(ctx context.Context, _ *Context, _ *Call) error {
				both.Done()
				both.Wait() // this would block for ever if the second began only after the first
				return nil
			}
		})
		e.ask(a, "Look", run.Succeeded)
		tools := e.last(thread.ToolUse)
		wantContains(t, "the first result", result(t, tools[0]), "export function App")
		wantContains(t, "the second result", result(t, tools[1]), "<!doctype html>")
	})
}

func TestTheRunRecordsTheModelThatARuleChose(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		m := e.script("turns:\n  - prompt: Architect it\n    steps: [{text: Done., usage: {input_tokens: 7, output_tokens: 3}}]\n")
		a := e.agent("sample", func(o *Options) {
			o.Models["big"], o.Model = m, "script"
			o.Routes = []Rule{{Name: "architecture", Pattern: regexp.MustCompile("(?i)architect"), Model: "big"}}
		})
		r := e.ask(a, "Architect it", run.Succeeded)
		if u := r.Usage["big"]; r.Model != "big" || u != (run.Usage{InputTokens: 7, OutputTokens: 3, TotalTokens: 10}) {
			t.Errorf("model %q, usage %+v; want big with its usage", r.Model, r.Usage)
		}
	})
}

func TestWhatAnAgentDoesInARunThatNamesNoneIsItsOwn(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("sample", nil)
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = a.Serve(ctx, e.sp.As("system"), &ServeOptions{Unnamed: true}) // ends with ctx
		}()
		runs := run.In(e.sp, nil)
		r, err := runs.Start(t.Context(), e.thread, run.Request{Prompt: "Create a button component"})
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the run's end", func() bool {
			r, err := runs.Get(t.Context(), r.ID)
			return err == nil && r.Ended()
		})
		stop()
		<-served
		types := []string{"tool.*", "file.*", "decision.*", "todo.*", "message.delta", "message.completed", "run.finished"}
		for _, typ := range append(types, "lock.*") {
			for _, ev := range e.events(typ) {
				if ev.Actor != "agent:coder" && !strings.HasPrefix(ev.Actor, "tool:") || ev.Cause != r.ID {
					t.Errorf("%s by %q because of %q, want the agent's because of its run", ev.Type, ev.Actor, ev.Cause)
				}
			}
		}
		for _, typ := range types {
			if len(e.events(typ)) == 0 {
				t.Errorf("no %s", typ)
			}
		}
		asked := e.events("message.added")
		if len(asked) != 1 || asked[0].Actor != "user:42" || asked[0].Cause != r.ID {
			t.Errorf("message.added: got %+v, want one by user:42", asked)
		}
	})
}

// If a prompt is sent again under its key, the result is the run of the first time.
func TestAPromptUnderAnIdempotencyKeyMakesOneRun(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("turns:\n  - prompt: Go\n    steps: [{text: Done.}]\n", nil)
		ctx := thole.WithIdempotencyKey(t.Context(), "k", "f")
		first, err := a.Run(ctx, e.sp, e.thread, Request{Prompt: "Go"})
		if err != nil {
			t.Fatal(err)
		}
		again, err := a.Run(ctx, e.sp, e.thread, Request{Prompt: "Go"})
		if err != nil || again == nil || again.ID != first.ID || again.Status != run.Succeeded {
			t.Errorf("again: %+v, %v; want run %s", again, err, first.ID)
		}
		if n := len(e.turns()); n != 1 {
			t.Errorf("%d turns, want one", n)
		}
	})
}

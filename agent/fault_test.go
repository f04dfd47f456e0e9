package agent

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/agent/history"
	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

func TestAnAnswerThatBreaksOffIsAskedForAgainThenFailsTheRun(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("turns:\n  - prompt: Speak\n    steps: [{text: I was about to, error: the line went dead}]\n",
			func(o *Options) { o.Retries = 2 })
		r := e.ask(a, "Speak", run.Failed)
		wantContains(t, "the run's error", r.Error, "the line went dead")
		if n := len(e.last(thread.Notice)); n != 2 {
			t.Errorf("%d notices, want one for each of two retries", n)
		}
		if n := len(e.last(thread.Text)); n != 3 {
			t.Errorf("%d text blocks, want one for each of three tries", n)
		}
		if blocks := e.last(thread.Failure); len(blocks) != 1 || blocks[0].Content != r.Error {
			t.Errorf("error blocks %+v, want the run's error", blocks)
		}
	})
}

// endpoint is a model service that answers with each of the handlers in turn, and then
// always with the last one. A response without a byte for the time stall counts as
// stalled.
func endpoint(t *testing.T, stall time.Duration, handlers ...http.HandlerFunc) model.Model {
	t.Helper()
	var mu sync.Mutex
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client disconnects
		mu.Lock()
		h := handlers[0]
		if len(handlers) > 1 {
			handlers = handlers[1:]
		}
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		h(w, r)
	}))
	t.Cleanup(srv.Close)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	m, err := model.Open("openai:test@"+srv.URL, &model.Options{
		Stall: stall, Backoff: time.Millisecond, Retries: 1, Transport: tr,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func chunks(parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, p := range parts {
			_, _ = w.Write([]byte("data: " + p + "\n\n"))
			w.(http.Flusher).Flush()
		}
	}
}

func stall(parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		chunks(parts...)(w, r)
		<-r.Context().Done()
	}
}

const (
	hello    = `{"choices":[{"index":0,"delta":{"content":"Hello"}}]}`
	halfCall = `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"Write","arguments":"{\"file_path\": \"a.t"}}]}}]}`
	stop     = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
)

func TestAFaultyModelFailsTheRunAndDoesNotHangIt(t *testing.T) {
	for name, c := range map[string]struct {
		handlers []http.HandlerFunc
		status   string
		says     string
	}{
		"stalls":              {[]http.HandlerFunc{stall()}, run.Failed, "stalled"},
		"stalls in a text":    {[]http.HandlerFunc{stall(hello)}, run.Failed, "stalled"},
		"truncates a call":    {[]http.HandlerFunc{chunks(hello, halfCall)}, run.Failed, "incomplete"},
		"recovers":            {[]http.HandlerFunc{chunks(hello, halfCall), chunks(hello, stop, "[DONE]")}, run.Succeeded, ""},
		"refuses for good":    {[]http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }}, run.Failed, "API key"},
		"overloaded, then on": {[]http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(529) }, chunks(hello, stop, "[DONE]")}, run.Succeeded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, e *env) {
				patience := time.Minute
				if c.says == "stalled" {
					patience = 50 * time.Millisecond
				}
				m := endpoint(t, patience, slices.Clone(c.handlers)...)
				a := e.agent("sample", func(o *Options) { o.Models, o.Retries = map[string]model.Model{"m": m}, 1 })
				r := e.ask(a, "Hello", c.status)
				wantContains(t, "the run's error", r.Error, c.says)
				if n := len(e.last(thread.Failure)); (n == 1) != (c.status == run.Failed) {
					t.Errorf("%d error blocks in a run that %s", n, c.status)
				}
				if e.exists("a.t") || len(e.events("tool.*")) > 0 {
					t.Error("a call that was never whole was acted on")
				}
			})
		})
	}
}

func TestHooksMayRefuse(t *testing.T) {
	refuse := errors.New("not on a Friday")
	script := "turns:\n  - prompt: Write it\n    steps:\n      - tool_calls: [{name: Write, input: {file_path: a.txt, content: a}}]\n      - text: Done.\n"
	t.Run("a run", func(t *testing.T) {
		each(t, func(t *testing.T, e *env) {
			r := e.ask(e.agent(script, func(o *Options) {
				o.Hooks.BeforeRun = func(context.Context, *Context, *Request) error { return refuse }
			}), "Write it", run.Failed)
			wantContains(t, "the run's error", r.Error, "not on a Friday")
		})
	})
	t.Run("a tool", func(t *testing.T) {
		each(t, func(t *testing.T, e *env) {
			e.ask(e.agent(script, func(o *Options) {
				o.Hooks.BeforeTool = func(context.Context, *Context, *Call) error { return refuse }
			}), "Write it", run.Succeeded)
			tools := e.last(thread.ToolUse)
			wantContains(t, "the result", result(t, tools[0]), "not on a Friday")
			if e.exists("a.txt") || len(e.events("decision.*")) > 0 {
				t.Error("a refused tool had an effect or a decision")
			}
		})
	})
	t.Run("a message", func(t *testing.T) {
		each(t, func(t *testing.T, e *env) {
			var roles []string
			r := e.ask(e.agent(script, func(o *Options) {
				o.Hooks.BeforeMessage = func(_ context.Context, _ *Context, role, _ string) error {
					roles = append(roles, role)
					if role == "assistant" {
						return refuse
					}
					return nil
				}
			}), "Write it", run.Failed)
			wantContains(t, "the run's error", r.Error, "not on a Friday")
			if !slices.Equal(roles, []string{"user", "assistant"}) || e.exists("a.txt") {
				t.Errorf("messages %v, file %v; want both asked about, and no tool run", roles, e.exists("a.txt"))
			}
		})
	})
}

func TestWhatIsWrongWithACallIsToldToTheModel(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent(`turns:
  - prompt: Try
    steps:
      - tool_calls:
          - {name: Fly, input: {}}
          - {name: Read, input: {path: a.txt}}
          - {name: Read, input: {file_path: ../../etc/passwd}}
          - {name: Bash, input: {command: "exit 3"}}
      - text: Done.
`, nil)
		e.ask(a, "Try", run.Succeeded)
		tools := e.last(thread.ToolUse)
		for i, want := range []string{`there is no tool "Fly"; there are Bash, Edit,`, "missing property 'file_path'", "leaves the working directory", "exit status 3"} {
			if got := result(t, tools[i]); tools[i].Status != thread.Error || !strings.Contains(got, want) {
				t.Errorf("%s: %s %q, want an error with %q", tools[i].Tool.Name, tools[i].Status, got, want)
			}
		}
	})
}

func TestHistoryFromTheClientIsUsedInsteadOfTheStored(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("sample", nil)
		e.write("src/components/BigButton.js", "style: 'background: lightgray; color: black'\n")
		r, err := a.Run(t.Context(), e.sp, e.thread, Request{Prompt: "Make it blue", RunOptions: RunOptions{ChatHistory: []history.Message{
			{Role: "user", Content: "Create a button component"},
			{Role: "assistant", Content: "Done.", Tools: []history.ToolCall{{Name: "Write", Input: []byte(`{"file_path":"src/components/BigButton.js"}`), Result: "Created"}}},
		}}})
		if err != nil {
			t.Fatalf("run %+v: %v", r, err)
		}
		wantContains(t, "BigButton.js", e.file("src/components/BigButton.js"), "background: royalblue")
	})
}

func TestScreensHearOfFilesThatACommandChanged(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent(`turns:
  - prompt: Go
    steps:
      - tool_calls: [{name: Write, input: {file_path: a.txt, content: "a\nx\ny\n"}}]
      - tool_calls: [{name: Bash, input: {command: "echo b >> a.txt"}}]
      - tool_calls: [{name: Edit, input: {file_path: a.txt, old_string: "a\n", new_string: "A\n"}}]
      - text: Done.
`, nil)
		e.ask(a, "Go", run.Succeeded)
		if got := e.file("a.txt"); got != "A\nx\ny\nb\n" {
			t.Errorf("a.txt = %q, want the command's change and the edit", got)
		}
		events := e.events("file.changed")
		if len(events) != 3 || events[1].Actor != "tool:Bash" {
			t.Errorf("%d changes %+v, want three, the second by tool:Bash", len(events), events)
		}
	})
}

func TestAgentsServeRunsThatWait(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("sample", nil)
		runs := run.In(e.sp, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		served := make(chan error, 1)
		go func() { served <- a.Serve(ctx, e.sp, &ServeOptions{Unnamed: true}) }()
		var ids []string
		for prompt, agent := range map[string]string{"Write the page one": "coder", "Write the page two": "", "Write the page three": "coder"} {
			th, err := thread.In(e.sp).Create(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			r, err := runs.Start(t.Context(), th.ID, run.Request{Prompt: prompt, Agent: agent})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
		until(t, "three runs", func() bool {
			for _, id := range ids {
				if r, err := runs.Get(t.Context(), id); err != nil || r.Status != run.Succeeded {
					return false
				}
			}
			return true
		})
		for _, page := range []string{"one", "two", "three"} {
			if !e.exists("pages/" + page + ".html") {
				t.Errorf("page %s is missing", page)
			}
		}
		over := errors.New("over")
		cancel(over)
		if err := <-served; !errors.Is(err, over) {
			t.Errorf("Serve = %v, want the cause of its context's end", err)
		}
	})
}

func TestAnInputOrResultThatIsTooLargeForAnEventEndsNoRun(t *testing.T) {
	effort.SlowUnderRace(t)
	each(t, func(t *testing.T, e *env) {
		e.write("zeros.bin", strings.Repeat("\x01", 90<<10)) // each takes six bytes as JSON
		a := e.agent(`turns:
  - prompt: Go
    steps:
      - tool_calls:
          - {name: Write, input: {file_path: a.txt, content: "`+strings.Repeat("x", 500<<10)+`"}}
          - {name: Bash, input: {command: cat zeros.bin}}
      - text: Done.
`, nil)
		e.ask(a, "Go", run.Succeeded)
		tools := e.last(thread.ToolUse)
		wantContains(t, "the result", result(t, tools[0]), "too large; work in smaller pieces")
		if got := result(t, tools[1]); tools[1].Status != thread.Done || len(got) < 10<<10 {
			t.Errorf("the command's result is %s with %d bytes, want as much of it as fits", tools[1].Status, len(got))
		}
	})
}

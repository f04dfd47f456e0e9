package agent

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/todo"
)

// recording is a model that remembers its last request.
type recording struct {
	model.Model
	mu   sync.Mutex
	last string
}

func (r *recording) Generate(ctx context.Context, req model.Request, yield func(model.Delta) error) (model.Response, error) {
	r.mu.Lock()
	r.last = model.Render(req)
	r.mu.Unlock()
	return r.Model.Generate(ctx, req, yield)
}

func (r *recording) asked() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// crashCase says what a tool's effect is, and how often it happened.
type crashCase struct {
	steps string // YAML, between the prompt and the last answer
	count func(e *env) int
}

func linesOf(name string) func(*env) int {
	return func(e *env) int {
		if !e.exists(name) {
			return 0
		}
		return strings.Count(e.file(name), "\n")
	}
}

func todosNamed(content string) func(*env) int {
	return func(e *env) int {
		list, err := todo.In(e.sp).List(e.t.Context(), e.thread)
		if err != nil {
			e.t.Fatal(err)
		}
		n := 0
		for _, t := range list.Todos {
			if t.Content == content {
				n++
			}
		}
		return n
	}
}

var crashCases = map[string]crashCase{
	"Read": {`      - tool_calls: [{name: Read, input: {file_path: poem.txt}}]`, func(*env) int { return 1 }},
	"Write": {`      - tool_calls: [{name: Write, input: {file_path: new.txt, content: "new\n"}}]`,
		linesOf("new.txt")},
	"Edit": {`      - tool_calls: [{name: Edit, input: {file_path: poem.txt, old_string: one, new_string: one one}}]`,
		func(e *env) int { return strings.Count(e.file("poem.txt"), "one") - 1 }},
	"Bash that succeeds": {`      - tool_calls: [{name: Bash, input: {command: "echo charged >> log.txt"}}]`,
		linesOf("log.txt")},
	"Bash that fails": {`      - tool_calls: [{name: Bash, input: {command: "echo charged >> log.txt; exit 1"}}]`,
		linesOf("log.txt")},
	"Todo that adds": {`      - tool_calls: [{name: Todo, input: {action: add, todos: [{content: buy milk}]}}]`,
		todosNamed("buy milk")},
	"Task with a command": {`      - tool_calls: [{name: Task, input: {prompt: Do the work}}]`,
		linesOf("log.txt")},
	"Task with a todo": {`      - tool_calls: [{name: Task, input: {prompt: Note the work}}]`,
		todosNamed("work")},
}

func (c crashCase) script() string {
	return "turns:\n  - prompt: Go ahead\n    steps:\n" + c.steps + `
      - text: Done.
  - prompt: Do the work
    steps:
      - tool_calls: [{name: Bash, input: {command: "echo charged >> log.txt; exit 1"}}]
      - text: Worked.
  - prompt: Note the work
    steps:
      - tool_calls: [{name: Todo, input: {action: add, todos: [{content: work}]}}]
      - text: Noted.
`
}

// Before or after whichever commit the process dies, a tool's effect happens at most
// once, and what the model is told about it is true.
func TestAnEffectHappensOnceWhereverTheProcessDies(t *testing.T) {
	effort.SlowUnderRace(t)
	for name, c := range crashCases {
		t.Run(name, func(t *testing.T) {
			for _, after := range []bool{false, true} {
				when := "before"
				if after {
					when = "after"
				}
				t.Run(when, func(t *testing.T) {
					statetest.Deep(t, func(t *testing.T, s *statetest.Env) {
						n := 1
						for ; n < 200 && c.diesAt(t, s, n, after); n++ {
						}
						if n < 5 || n == 200 {
							t.Errorf("the run made %d commits; the crashes did not come where they should", n)
						}
					})
				})
			}
		})
	}
}

// diesAt runs the case with a crash at the n-th commit, continues from there, and
// reports whether there was an n-th commit.
func (c crashCase) diesAt(t *testing.T, s *statetest.Env, n int, after bool) bool {
	t.Helper()
	m := s.Mortal()
	e := newEnv(t, s, nil)
	e.write("poem.txt", poem)
	a := e.agent(c.script(), nil)
	m.DieAt(statetest.Cut{Commit: n, Applied: after})
	_, err := a.Run(context.Background(), e.sp, e.thread, Request{Prompt: "Go ahead"})
	if !m.Died() {
		if err != nil || c.count(e) != 1 {
			t.Fatalf("a run without a crash: %v, the effect happened %d times", err, c.count(e))
		}
		return false
	}
	where := fmt.Sprintf("crash at commit %d, applied: %v", n, after)
	e.Reopen()
	e.sp = e.Space("project:button").As("user:42")
	runs := run.In(e.sp, nil)
	e.Clock.Advance(time.Minute)
	if err := e.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, err := runs.List(t.Context(), e.thread, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Items) == 0 { // it never began
		if got := c.count(e); got != 0 && !strings.Contains(c.steps, "Read") {
			t.Errorf("%s: no run, and the effect happened %d times", where, got)
		}
		return true
	}
	old := page.Items[0]
	if old.Status == run.Succeeded {
		if got := c.count(e); got != 1 {
			t.Errorf("%s: the run succeeded, and the effect happened %d times", where, got)
		}
		return true
	}
	told := &recording{Model: e.script(c.script())}
	b := e.agent(c.script(), func(o *Options) { o.Models = map[string]model.Model{"script": told} })
	if r, err := b.Resume(t.Context(), e.sp, old.ID); err != nil || r.Status != run.Succeeded {
		t.Fatalf("%s: resumed run %+v: %v", where, r, err)
	}
	count, asked := c.count(e), told.asked()
	asked = asked[strings.Index(asked, "[user]"):]
	unknown := strings.Contains(asked, "whether it had its effect is unknown")
	if count > 1 || count < 1 && !unknown {
		t.Errorf("%s: the effect happened %d times; the model was told:\n%s", where, count, asked)
	}
	if count == 0 && !unknown && (strings.Contains(asked, "it had its effect]") || strings.Contains(asked, "it ran, and failed")) {
		t.Errorf("%s: nothing happened, and the model was told that it did:\n%s", where, asked)
	}
	list, err := decision.In(e.sp).List(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list.Items {
		if d.Thread == e.thread && d.Status == decision.Planned {
			t.Errorf("%s: %s has no outcome after the resume", where, d.Action)
		}
	}
	return true
}

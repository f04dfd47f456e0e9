package agent

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/examples"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

var supervisor *sandbox.Supervisor

func TestMain(m *testing.M) {
	supervisor = sandbox.Main()
	statetest.Main(m)
}

// env is the sample project, a thread in its space, and an agent on a script.
type env struct {
	*statetest.Env
	t       *testing.T
	sp      *thole.Space
	thread  string
	sandbox *sandbox.Sandbox
	dir     string
}

// each runs promise on every embedded store, in a fresh sample project.
func each(t *testing.T, promise func(t *testing.T, e *env)) {
	t.Helper()
	statetest.Each(t, func(t *testing.T, s *statetest.Env) { promise(t, newEnv(t, s, nil)) })
}

func newEnv(t *testing.T, s *statetest.Env, o *sandbox.Options) *env {
	t.Helper()
	e := &env{Env: s, t: t, dir: t.TempDir(), sp: s.Space("project:button").As("user:42")}
	if _, err := examples.LayOut(e.dir); err != nil {
		t.Fatal(err)
	}
	if o == nil {
		o = &sandbox.Options{}
	}
	o.Supervisor = supervisor
	var err error
	if e.sandbox, err = sandbox.Open(e.dir, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.sandbox.Close() })
	th, err := thread.In(e.sp).Create(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	e.thread = th.ID
	return e
}

// agent returns an agent that plays the given script, which is YAML, "sample", or the
// name of a demo.
func (e *env) agent(script string, change func(*Options)) *Agent {
	e.t.Helper()
	o := Options{Sandbox: e.sandbox, Models: map[string]model.Model{"script": e.script(script)}}
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	if err != nil {
		e.t.Fatal(err)
	}
	return a
}

// script returns the script without its delays.
func (e *env) script(script string) model.Model {
	e.t.Helper()
	data := []byte(script)
	if !strings.Contains(script, "\n") {
		file := "../examples/scripts/" + script + ".yaml"
		if script == "sample" {
			file = "../examples/script.yaml"
		}
		var err error
		if data, err = os.ReadFile(file); err != nil {
			e.t.Fatal(err)
		}
	}
	s, err := model.ParseScript("test", regexp.MustCompile(`(?m)^delay_ms:.*`).ReplaceAll(data, nil))
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

// ask runs a prompt to its end; the run must have the status then.
func (e *env) ask(a *Agent, prompt, status string) *run.Run {
	e.t.Helper()
	r, err := a.Run(e.t.Context(), e.sp, e.thread, Request{Prompt: prompt})
	if r == nil {
		e.t.Fatalf("%q: %v", prompt, err)
	}
	if r.Status != status {
		e.t.Fatalf("%q ended %s (%v), want %s", prompt, r.Status, err, status)
	}
	return r
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// background sends a prompt and returns a function that returns the run after it has
// ended.
func (e *env) background(a *Agent, ctx context.Context, prompt string) func() (*run.Run, error) {
	type end struct {
		r   *run.Run
		err error
	}
	done := make(chan end, 1)
	go func() {
		r, err := a.Run(ctx, e.sp, e.thread, Request{Prompt: prompt})
		done <- end{r, err}
	}()
	return func() (*run.Run, error) {
		e.t.Helper()
		select {
		case end := <-done:
			return end.r, end.err
		case <-time.After(20 * time.Second):
			e.t.Fatal("the run has not ended within 20 s")
			return nil, nil
		}
	}
}

func (e *env) file(name string) string {
	e.t.Helper()
	data, err := os.ReadFile(filepath.Join(e.dir, name))
	if err != nil {
		e.t.Fatal(err)
	}
	return string(data)
}

func (e *env) write(name, content string) {
	e.t.Helper()
	if err := os.WriteFile(filepath.Join(e.dir, name), []byte(content), 0o666); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) exists(name string) bool {
	_, err := os.Stat(filepath.Join(e.dir, name))
	return err == nil
}

// turns returns the thread's turns, oldest first.
func (e *env) turns() []*thread.Turn {
	e.t.Helper()
	page, err := thread.In(e.sp).Turns(e.t.Context(), e.thread, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	return page.Items
}

// last returns the blocks of the last response that have the type.
func (e *env) last(typ string) []thread.Block {
	e.t.Helper()
	turns := e.turns()
	var out []thread.Block
	for _, b := range turns[len(turns)-1].Response {
		if b.Type == typ {
			out = append(out, b)
		}
	}
	return out
}

func (e *env) events(types ...string) []thole.Event {
	e.t.Helper()
	var out []thole.Event
	for ev, err := range e.sp.Events(context.Background(), thole.ReadQuery{Types: types}) {
		if err != nil {
			e.t.Fatal(err)
		}
		out = append(out, ev)
	}
	return out
}

func wantContains(t *testing.T, what, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("%s has no %q; it is:\n%s", what, want, got)
	}
}

func result(t *testing.T, b thread.Block) string {
	t.Helper()
	var s string
	if b.Tool.Result == nil {
		return ""
	}
	if err := json.Unmarshal(b.Tool.Result, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

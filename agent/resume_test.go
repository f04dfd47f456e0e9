package agent

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

// A crash is simulated by closing the store during a run: nothing is recorded from then
// on. restart stands for the next start of the program, after the dead run's lease
// expired; it returns that run.
func (e *env) restart() *run.Run {
	e.t.Helper()
	e.Reopen()
	e.sp = e.Space("project:button").As("user:42")
	runs := run.In(e.sp, nil) // this ends crashed runs
	e.Clock.Advance(time.Minute)
	if err := e.Sweep(e.t.Context()); err != nil {
		e.t.Fatal(err)
	}
	page, err := runs.List(e.t.Context(), e.thread, nil)
	if err != nil || len(page.Items) != 1 || page.Items[0].Status != run.Crashed {
		e.t.Fatalf("runs %+v, %v; want one that crashed", page.Items, err)
	}
	return page.Items[0]
}

func (e *env) crash(a *Agent, prompt string) {
	e.t.Helper()
	if _, err := a.Run(context.Background(), e.sp, e.thread, Request{Prompt: prompt}); err == nil {
		e.t.Fatal("the run ended well, want a crash")
	}
}

func (e *env) unfinished() []decision.Decision {
	e.t.Helper()
	page, err := decision.In(e.sp).List(e.t.Context(), &decision.ListOptions{Incomplete: true})
	if err != nil {
		e.t.Fatal(err)
	}
	return page.Items
}

func (e *env) resume(a *Agent, old *run.Run) *run.Run {
	e.t.Helper()
	r, err := a.Resume(e.t.Context(), e.sp, old.ID)
	if err != nil || r.Status != run.Succeeded || r.ResumedFrom != old.ID {
		e.t.Fatalf("resumed run %+v, %v; want success, from %s", r, err, old.ID)
	}
	return r
}

func TestARunThatCrashedAroundAnEditIsResumed(t *testing.T) {
	for point, c := range map[string]struct {
		decisions int  // unfinished after the crash
		applied   bool // the effect happened before the crash
		tools     int  // blocks of the resumed turn
	}{
		"before intent":              {tools: 1},
		"between intent and effect":  {decisions: 1, tools: 1},
		"between effect and outcome": {decisions: 1, applied: true},
	} {
		t.Run(point, func(t *testing.T) {
			statetest.Each(t, func(t *testing.T, s *statetest.Env) {
				var e *env
				var once sync.Once
				crash := func(at string) {
					if point != at {
						return
					}
					once.Do(func() {
						s.Store.Close()
						if at == "between intent and effect" {
							panic("crash")
						}
					})
				}
				e = newEnv(t, s, &sandbox.Options{BeforeRename: func(string) {
					crash("between intent and effect")
					crash("between effect and outcome")
				}})
				e.write("poem.txt", poem)
				a := e.agent("turns:"+readAndEdit("Edit it", "one", "ONE"), before("Edit", func() { crash("before intent") }))
				e.crash(a, "Edit it")
				old := e.restart()
				if open := e.unfinished(); len(open) != c.decisions {
					t.Errorf("%d unfinished decisions, want %d", len(open), c.decisions)
				}
				if got := e.file("poem.txt") != poem; got != c.applied {
					t.Errorf("applied %v before the resume, want %v", got, c.applied)
				}
				e.resume(a, old)
				if got, want := e.file("poem.txt"), strings.Replace(poem, "one", "ONE", 1); got != want {
					t.Errorf("poem.txt = %q, want the edit once: %q", got, want)
				}
				if open := e.unfinished(); len(open) != 0 {
					t.Errorf("unfinished after the resume: %+v", open)
				}
				if n := len(e.last(thread.ToolUse)); n != c.tools {
					t.Errorf("%d tool calls in the resumed turn, want %d", n, c.tools)
				}
				turns := e.turns()
				if blocks := turns[0].Response; turns[0].Status != thread.Interrupted || blocks[len(blocks)-1].Status != thread.Interrupted {
					t.Errorf("the crashed turn is %s, its last block %s; want both interrupted", turns[0].Status, blocks[len(blocks)-1].Status)
				}
				if n := len(e.events("file.changed")); n != 1 {
					t.Errorf("%d file.changed events, want one", n)
				}
			})
		})
	}
}

func bashScript(idempotent, expect string) string {
	return `turns:
  - prompt: Run it
    steps:
      - tool_calls:
          - name: Bash
            input:
              command: "touch started.txt; until [ -e go.txt ]; do sleep 0.01; done; echo ran >> log.txt"
              idempotent: ` + idempotent + `
      - expect: ['` + expect + `']
        text: Done.
`
}

// crashInBash closes the store while the command runs, and lets it end.
func (e *env) crashInBash(a *Agent) *run.Run {
	e.t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		until(e.t, "the command", func() bool { return e.exists("started.txt") })
		e.Store.Close()
		if err := os.WriteFile(e.dir+"/go.txt", nil, 0o666); err != nil {
			e.t.Error(err)
		}
	})
	e.crash(a, "Run it")
	wg.Wait()
	return e.restart()
}

func TestACommandWithoutOutcomeIsUnknownAndNotRunAgain(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent(bashScript("false", "whether it had its effect is unknown"), nil)
		old := e.crashInBash(a)
		unknown, err := a.Reconcile(t.Context(), e.sp, old.ID)
		if err != nil || len(unknown) != 1 || unknown[0].Status != decision.Unknown {
			t.Fatalf("unfinished %+v, %v; want the command, unknown", unknown, err)
		}
		wantContains(t, "the decision", unknown[0].Action, "Bash: touch started.txt")
		e.resume(a, old)
		if got := e.file("log.txt"); got != "ran\n" {
			t.Errorf("log.txt = %q, want one run of the command", got)
		}
		if open := e.unfinished(); len(open) != 1 {
			t.Errorf("%d unfinished, want it to stay unknown until someone finds out", len(open))
		}
	})
}

func TestAnIdempotentCommandIsRunAgain(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent(bashScript("true", "[tool_result Bash]"), nil)
		e.resume(a, e.crashInBash(a))
		if got := e.file("log.txt"); got != "ran\nran\n" {
			t.Errorf("log.txt = %q, want two runs of the command", got)
		}
		if open := e.unfinished(); len(open) != 0 {
			t.Errorf("unfinished decisions: got %+v, want none", open)
		}
	})
}

// dying is a model during whose answer the store dies, once.
type dying struct {
	model.Model
	once *sync.Once
	die  func()
}

func (d dying) Generate(ctx context.Context, req model.Request, yield func(model.Delta) error) (model.Response, error) {
	return d.Model.Generate(ctx, req, func(delta model.Delta) error {
		if err := yield(delta); err != nil {
			return err
		}
		d.once.Do(d.die)
		return nil
	})
}

func TestARunThatCrashedWhileItSpokeIsResumed(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		script := e.script("turns:\n  - prompt: Speak\n    steps: [{text: This is a rather long answer to a short question.}]\n")
		m := dying{script, &sync.Once{}, func() { e.Store.Close() }}
		a := e.agent("sample", func(o *Options) { o.Models = map[string]model.Model{"m": m} })
		e.crash(a, "Speak")
		e.resume(a, e.restart())
		blocks := e.last(thread.Text)
		if len(blocks) != 1 || blocks[0].Content != "This is a rather long answer to a short question." {
			t.Errorf("blocks %+v, want the whole answer", blocks)
		}
	})
}

func TestTheSampleIsFinishedAfterACrashInTheMiddleOfAStep(t *testing.T) {
	statetest.Each(t, func(t *testing.T, s *statetest.Env) {
		var once sync.Once
		e := newEnv(t, s, &sandbox.Options{BeforeRename: func(path string) {
			if path == "src/App.js" { // the first of two edits, of five calls
				once.Do(func() { s.Store.Close() })
			}
		}})
		a := e.agent("sample", nil)
		e.crash(a, "Create a button component")
		e.resume(a, e.restart())
		app := e.file("src/App.js")
		for _, want := range []string{"import { Button }", "Button({ label: 'Press me' })"} {
			if strings.Count(app, want) != 1 {
				t.Errorf("App.js has %q %d times, want once:\n%s", want, strings.Count(app, want), app)
			}
		}
		e.ask(a, "Make it blue", run.Succeeded)
	})
}

func TestASubAgentsCommandWithoutOutcomeIsKnownToItsParent(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent(strings.Replace(bashScript("false", "never played"), "Run it", "Do the work", 1)+`
  - prompt: Run it
    steps:
      - tool_calls: [{name: Task, input: {prompt: Do the work}}]
      - expect: ['whether it had its effect is unknown']
        text: I leave it.
`, nil)
		e.resume(a, e.crashInBash(a))
		if open := e.unfinished(); len(open) != 1 || open[0].Status != decision.Unknown {
			t.Errorf("unfinished %+v, want the sub-agent's command, unknown", open)
		}
		if got := e.file("log.txt"); got != "ran\n" {
			t.Errorf("log.txt = %q, want one run of the command", got)
		}
	})
}

// The next run does not wait for the lock that a dead run holds on a file. It takes
// over the lock, even if the lock was renewed for longer than the run's lease lasts.
func TestAResumedRunDoesNotWaitForTheLocksOfTheDeadOne(t *testing.T) {
	statetest.Each(t, func(t *testing.T, s *statetest.Env) {
		var e *env
		e = newEnv(t, s, &sandbox.Options{AfterRename: func(string) { e.Close() }})
		e.write("poem.txt", poem)
		short := func(o *Options) { o.Runs = &run.Options{Lease: 5 * time.Second} }
		script := `turns:
  - prompt: Edit it
    steps:
      - tool_calls: [{name: Read, input: {file_path: poem.txt}}]
      - tool_calls: [{name: Edit, input: {file_path: poem.txt, old_string: one, new_string: ONE}}]
      - tool_calls: [{name: Edit, input: {file_path: poem.txt, old_string: two, new_string: TWO}}]
      - text: Done.
`
		e.crash(e.agent(script, short), "Edit it")
		e.Reopen()
		e.sp = e.Space("project:button").As("user:42")
		e.Clock.Advance(6 * time.Second) // past the run's lease, not past the lock's
		page, err := run.In(e.sp, nil).List(t.Context(), e.thread, nil)
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("runs %+v, %v; want one", page.Items, err)
		}
		held, err := lock.In(e.sp).Get(t.Context(), "poem.txt")
		if err != nil || held.Holder == nil || held.Holder.Expires.IsZero() || !strings.HasPrefix(held.Holder.Owner, page.Items[0].ID) {
			t.Fatalf("lock %+v, %v; want that the dead run holds it", held, err)
		}
		dir := e.dir
		if e.sandbox, err = sandbox.Open(dir, &sandbox.Options{Supervisor: supervisor}); err != nil {
			t.Fatal(err)
		}
		defer e.sandbox.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		r, err := e.agent(script, short).Resume(ctx, e.sp, page.Items[0].ID)
		if err != nil || r.Status != run.Succeeded {
			t.Fatalf("resumed run %+v, %v; want success", r, err)
		}
		if got := e.file("poem.txt"); !strings.Contains(got, "TWO") {
			t.Errorf("poem.txt = %q, want the second edit", got)
		}
	})
}

func TestARunIsResumedHoweverManyTurnsFollowed(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("turns:\n  - prompt: first\n    steps: [{text: The first answer.}]\n  - prompt: other\n    steps: [{text: Another.}]\n", nil)
		broken := func(context.Context, *run.Handle) error { return errors.New("its model was down") }
		old, err := run.In(e.sp, nil).Run(t.Context(), e.thread, run.Request{Prompt: "first", Agent: DefaultName}, broken)
		if err == nil {
			t.Fatal("the run ended well, want it failed")
		}
		for range 2*a.opts.History + 1 {
			e.ask(a, "other", run.Succeeded)
		}
		e.resume(a, old)
		if said := e.last(thread.Text); len(said) != 1 || said[0].Content != "The first answer." {
			t.Errorf("the resumed run said %v, want the first answer", said)
		}
	})
}

func TestAResumedRunLeavesPostedMessagesToTheirOwn(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("turns:\n  - prompt: '/\\Afirst\\z/'\n    steps: [{text: The first answer.}]\n  - prompt: '/\\Aposted\\z/'\n    steps: [{text: Seen.}]\n", nil)
		broken := func(context.Context, *run.Handle) error { return errors.New("its model was down") }
		old, err := run.In(e.sp, nil).Run(t.Context(), e.thread, run.Request{Prompt: "first", Agent: DefaultName}, broken)
		if err == nil {
			t.Fatal("the run ended well, want it failed")
		}
		e.post("posted")
		e.resume(a, old)
		if said := e.last(thread.Text); len(said) != 1 || said[0].Content != "The first answer." {
			t.Errorf("the resumed run said %v, want the first answer", said)
		}
		e.answer()
		if said := e.next(a); !slices.Equal(said, []string{"Seen."}) {
			t.Errorf("the run of the message said %q", said)
		}
	})
}

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

func TestDataURLsBecomeImages(t *testing.T) {
	a := Attachment{Name: "dot.png", URL: "data:image/png;base64,aGk="}
	if err := a.read(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if b := model.Attached(a.Name, a.Type, a.URL, a.data); b.MediaType != "image/png" || string(b.Data) != "hi" {
		t.Errorf("block = %+v, want the decoded image", b)
	}
	f := Attachment{Name: "notes.txt", Type: "text/plain", URL: "https://example.com/notes.txt"}
	if b := model.Attached(f.Name, f.Type, f.URL, f.data); !strings.Contains(b.Text, "notes.txt") || !strings.Contains(b.Text, f.URL) {
		t.Errorf("block = %+v, want name and address", b)
	}
}

func TestAnOptionThatTheAgentDoesNotKnowFailsTheRunAndIsNamed(t *testing.T) {
	for options, want := range map[string]string{
		`{"temperature":1}`:   `option "/temperature" is not known`,
		`{"user_id":7}`:       `option "/user_id" is of the wrong type`,
		`{"chat_history":{}}`: `option "/chat_history" is of the wrong type`,
		`{"chat_history":[{"role":"user","contents":"x"}]}`: `option "/chat_history/0/contents" is not known`,
		`{"chat_history":[{"role":"system"}]}`:              `"system" is not user or assistant`,
		`[]`:                                                `the run's options`,
	} {
		if _, err := optionsOf(&run.Run{Options: json.RawMessage(options)}); !errors.Is(err, thole.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want ErrInvalid with %q", options, err, want)
		}
	}
	each(t, func(t *testing.T, e *env) {
		a := e.agent("sample", nil)
		runs := run.In(e.sp, nil)
		var r *run.Run
		err := runs.Do(t.Context(), e.thread, run.Request{Prompt: "Create a button component", Options: json.RawMessage(`{"temperature":1}`)},
			func(ctx context.Context, h *run.Handle) (err error) {
				r, err = h.Get(ctx)
				return errors.Join(err, a.Work(ctx, h))
			})
		if err == nil {
			t.Fatal("a run with an unknown option ended well")
		}
		if r, err = runs.Get(t.Context(), r.ID); err != nil || r.Status != run.Failed || !strings.Contains(r.Error, `"/temperature"`) {
			t.Errorf("run %+v, %v; want it failed, with the option named", r, err)
		}
	})
}

// A message that a run has not begun to answer is answered although others came behind it.
func TestAPendingMessageIsAnsweredThoughOthersFollow(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("turns:\n  - prompt: make it blue\n    steps:\n      - text: it is blue\n", nil)
		for _, m := range []thread.Message{
			{Role: thread.User, Blocks: []thread.Block{thread.TextBlock("make it blue")}},
			{Role: thread.System, Blocks: []thread.Block{thread.TextBlock("the user is in Berlin")}},
		} {
			if _, err := thread.In(e.sp).Append(t.Context(), e.thread, m, nil); err != nil {
				t.Fatal(err)
			}
		}
		runs := run.In(e.sp, nil)
		r, err := runs.Run(t.Context(), e.thread, run.Request{}, a.Work)
		if err != nil || r.Status != run.Succeeded {
			t.Errorf("run %+v, %v", r, err)
		}
		again, err := runs.Run(t.Context(), e.thread, run.Request{}, a.Work)
		if said := e.last(thread.Text); err != nil || again.Status != run.Succeeded || len(said) != 0 {
			t.Errorf("run %+v answered the message again, with %v: %v", again, said, err)
		}
	})
}

func (e *env) post(text string) { e.t.Helper(); e.say(thread.TextBlock(text)) }

func (e *env) say(blocks ...thread.Block) {
	e.t.Helper()
	m := thread.Message{Role: thread.User, Blocks: blocks}
	if _, err := thread.In(e.sp).Append(e.t.Context(), e.thread, m, nil); err != nil {
		e.t.Fatal(err)
	}
}

// answer starts a run without a prompt.
func (e *env) answer() *run.Run {
	e.t.Helper()
	r, err := run.In(e.sp, nil).Start(e.t.Context(), e.thread, run.Request{Agent: DefaultName})
	if err != nil {
		e.t.Fatal(err)
	}
	return r
}

// next works on the run that comes next, and returns the texts that it said.
func (e *env) next(a *Agent) (said []string) {
	e.t.Helper()
	h, err := run.In(e.sp, nil).Claim(e.t.Context(), &run.ClaimOptions{Agent: DefaultName})
	if err != nil {
		e.t.Fatal(err)
	}
	if err := h.Do(e.t.Context(), a.Work); err != nil {
		e.t.Error(err)
	}
	for _, b := range e.last(thread.Text) {
		said = append(said, b.Content)
	}
	return said
}

func (e *env) status(id string) string {
	e.t.Helper()
	r, err := run.In(e.sp, nil).Get(e.t.Context(), id)
	if err != nil {
		e.t.Fatal(err)
	}
	return r.Status
}

// Each of those who talk in a thread posts a message and starts a run without a prompt.
func TestMessagesPostedBeforeARunBeginsAreAnsweredOnceByIt(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("turns:\n  - prompt: '/(?s)\\Amessage 1$.*message 12\\z/'\n    steps: [{text: All of it.}]\n", nil)
		for i := range 12 { // more than the agent shows the model of the past
			e.post(fmt.Sprint("message ", i+1))
			e.answer()
		}
		if said := e.next(a); !slices.Equal(said, []string{"All of it."}) {
			t.Errorf("the first run said %q", said)
		}
		for range 11 {
			if said := e.next(a); said != nil {
				t.Errorf("a later run said %q", said)
			}
		}
	})
}

func TestAMessagePostedDuringARunIsAnsweredByTheNext(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("turns:\n  - prompt: '/\\Aposted\\z/'\n    steps: [{text: Seen.}]\n  - prompt: '/\\Afirst\\z/'\n    steps: [{text: Well.}]\n", nil)
		r, err := run.In(e.sp, nil).Run(t.Context(), e.thread, run.Request{Prompt: "first", Agent: DefaultName}, func(ctx context.Context, h *run.Handle) error {
			e.post("posted") // after the run began, and before its agent reads the thread
			e.answer()
			return a.Work(ctx, h)
		})
		if err != nil || r.Status != run.Succeeded {
			t.Fatal(r, err)
		}
		if said := e.last(thread.Text); len(said) != 1 || said[0].Content != "Well." {
			t.Errorf("the run that the message joined said %v", said)
		}
		e.answer()
		if said := e.next(a); !slices.Equal(said, []string{"Seen."}) {
			t.Errorf("the run of the message said %q", said)
		}
		if said := e.next(a); said != nil {
			t.Errorf("another run said %q", said)
		}
	})
}

func TestARunWithAPromptLeavesWhatWasPostedToAnother(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("turns:\n  - prompt: '/\\Aprompt\\z/'\n    steps: [{text: Done.}]\n  - prompt: '/\\Aposted\\z/'\n    steps: [{text: Seen.}]\n", nil)
		e.post("posted")
		e.ask(a, "prompt", run.Succeeded)
		e.answer()
		if said := e.next(a); !slices.Equal(said, []string{"Seen."}) {
			t.Errorf("the run of the message said %q", said)
		}
	})
}

// recalled runs q and returns what it is asked and what it is told of the past.
func (e *env) recalled(a *Agent, q run.Request) (asked, past string) {
	e.t.Helper()
	_, err := run.In(e.sp, nil).Run(e.t.Context(), e.thread, q, func(ctx context.Context, h *run.Handle) error {
		c := &Context{Store: h.Space().Store(), Sandbox: a.opts.Sandbox, TodoThread: h.Thread(), agent: a}
		c.bind(h, nil)
		r, err := h.Get(ctx)
		if err != nil {
			return err
		}
		req, before, _, err := a.recall(ctx, c, r)
		asked, past = req.Prompt, fmt.Sprint(before)
		return err
	})
	if err != nil {
		e.t.Errorf("%+v: %v", q, err)
	}
	return asked, past
}

func TestWhatARunIsAsked(t *testing.T) {
	down := func(context.Context, *run.Handle) error { return errors.New("down") }
	for name, tt := range map[string]struct {
		before func(e *env) (resume string) // makes the thread's history
		prompt string
		want   string
	}{
		"its prompt, though others posted before": {
			func(e *env) string { e.post("posted"); return "" }, "prompt", "prompt",
		},
		"what was posted since an answer that no run gave": {
			func(e *env) string {
				e.post("old, part 1")
				e.turn("old, part 2", "old answer")
				e.post("new, part 1")
				e.post("new, part 2")
				return ""
			}, "", "new, part 1\n\nnew, part 2",
		},
		"what was posted while runs with prompts worked": {
			func(e *env) string {
				for _, name := range []string{"first", "second"} {
					e.work(run.Request{Prompt: name}, func(context.Context, *run.Handle) error { e.post("during the " + name); return nil })
				}
				return ""
			}, "", "during the first\n\nduring the second",
		},
		"nothing that was answered during a run": {
			func(e *env) string {
				e.work(run.Request{Prompt: "first"}, func(ctx context.Context, _ *run.Handle) error { e.turn("question", "answer"); return nil })
				e.post("posted")
				return ""
			}, "", "posted",
		},
		"nothing that a summary replaces": {
			func(e *env) string {
				e.work(run.Request{Prompt: "first"}, nil)
				e.post("summarized")
				e.post("posted")
				if err := thread.In(e.sp).Compact(e.t.Context(), e.thread, e.turns()[1].ID, "summary"); err != nil {
					e.t.Fatal(err)
				}
				return ""
			}, "", "posted",
		},
		"nothing that a run answered which was resumed": {
			func(e *env) string {
				e.post("old")
				failed := e.work(run.Request{}, down)
				e.post("new")
				e.work(run.Request{ResumedFrom: failed}, nil)
				return ""
			}, "", "new",
		},
		"what the run was asked that it resumes": {
			func(e *env) string {
				failed := e.work(run.Request{Prompt: "question"}, func(context.Context, *run.Handle) error {
					e.post("posted")
					return errors.New("down")
				})
				e.post("posted later")
				return failed
			}, "", "question",
		},
		"what the run was asked that it resumes, and its own prompt": {
			func(e *env) string { return e.work(run.Request{Prompt: "question"}, down) }, "quickly", "question\n\nquickly",
		},
		"all that was posted for the run that it resumes": {
			func(e *env) string {
				e.post("one")
				e.post("two")
				return e.work(run.Request{}, down)
			}, "", "one\n\ntwo",
		},
		"what the first run was asked, behind one that was rolled back": {
			func(e *env) string {
				runs := run.In(e.sp, nil)
				first := e.work(run.Request{Prompt: "question"}, down)
				second := e.work(run.Request{ResumedFrom: first}, func(ctx context.Context, h *run.Handle) error {
					e.post("joined")
					// Not under the run's own context, which this ends, perhaps before it returns.
					if _, err := runs.Start(e.t.Context(), e.thread, run.Request{Prompt: "instead", Policy: run.Rollback, Agent: DefaultName}); err != nil {
						e.t.Error(err)
					}
					<-ctx.Done()
					return context.Cause(ctx)
				})
				h, err := runs.Claim(e.t.Context(), &run.ClaimOptions{Agent: DefaultName})
				if err != nil {
					e.t.Fatal(err)
				}
				if err := h.Do(e.t.Context(), func(context.Context, *run.Handle) error { return nil }); err != nil {
					e.t.Error(err)
				}
				return second
			}, "", "question\n\njoined",
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, e *env) {
				a := e.agent("turns:\n  - prompt: x\n    steps: [{text: y}]\n", nil)
				resume := tt.before(e)
				if got, _ := e.recalled(a, run.Request{Prompt: tt.prompt, ResumedFrom: resume}); got != tt.want {
					t.Errorf("asked %q, want %q", got, tt.want)
				}
			})
		})
	}
}

func TestARunBehindManyPostsIsToldOfThePast(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("turns:\n  - prompt: x\n    steps: [{text: y}]\n", nil)
		e.turn("the file is x.go", "noted")
		for range 12 { // more than the agent shows the model of the past
			e.post("and?")
		}
		if asked, past := e.recalled(a, run.Request{}); strings.Count(asked, "and?") != 12 || !strings.Contains(past, "x.go") {
			t.Errorf("asked %q with the past %s", asked, past)
		}
	})
}

// turn posts a question with its answer.
func (e *env) turn(question, answer string) {
	e.t.Helper()
	_, _, err := thread.In(e.sp).Post(e.t.Context(), e.thread, []thread.Block{thread.TextBlock(question)}, []thread.Block{thread.TextBlock(answer)}, nil)
	if err != nil {
		e.t.Fatal(err)
	}
}

// work runs q with the work do, nil: nothing, and returns its id.
func (e *env) work(q run.Request, do func(context.Context, *run.Handle) error) string {
	e.t.Helper()
	if do == nil {
		do = func(context.Context, *run.Handle) error { return nil }
	}
	r, err := run.In(e.sp, nil).Run(e.t.Context(), e.thread, q, do)
	if r == nil {
		e.t.Fatal(err)
	}
	return r.ID
}

// However often somebody asks, the run is named that was asked and did not answer, until it
// is resumed.
func TestARunWithoutAPromptNamesTheRunThatDidNotAnswer(t *testing.T) {
	down := func(context.Context, *run.Handle) error { return errors.New("down") }
	for name, unanswered := range map[string]func(e *env) string{
		"which took what was posted and failed": func(e *env) string {
			e.post("posted")
			return e.work(run.Request{}, down)
		},
		"which failed after somebody had posted during a run": func(e *env) string {
			e.work(run.Request{Prompt: "first"}, func(context.Context, *run.Handle) error { e.post("posted"); return nil })
			return e.work(run.Request{}, down)
		},
		"which its worker gave up": func(e *env) string {
			e.post("posted")
			return e.work(run.Request{}, func(ctx context.Context, h *run.Handle) error {
				if _, err := run.In(e.sp, nil).Cancel(e.t.Context(), h.ID(), run.ByShutdown); err != nil {
					e.t.Error(err)
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})
		},
		"whose resumption failed behind a run that waited for it": func(e *env) string {
			e.post("posted")
			first := e.work(run.Request{}, down)
			waited := e.answer()
			again, err := run.In(e.sp, nil).Start(e.t.Context(), e.thread, run.Request{ResumedFrom: first, Agent: DefaultName})
			if err != nil {
				e.t.Fatal(err)
			}
			if said := e.next(e.agent("turns:\n  - prompt: other\n    steps: [{text: Never.}]\n", nil)); said != nil || e.status(waited.ID) != run.Succeeded {
				e.t.Errorf("the run that waited said %q and %s", said, e.status(waited.ID))
			}
			h, err := run.In(e.sp, nil).Claim(e.t.Context(), &run.ClaimOptions{Agent: DefaultName})
			if err != nil {
				e.t.Fatal(err)
			}
			_ = h.Do(e.t.Context(), down)
			return again.ID
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, e *env) {
				a := e.agent("turns:\n  - prompt: other\n    steps: [{text: Never.}]\n", nil)
				good := e.agent("turns:\n  - prompt: '/\\Aposted\\z/'\n    steps: [{text: Seen.}]\n", nil)
				runs := run.In(e.sp, nil)
				fails := func(q run.Request, naming string) string {
					t.Helper()
					r, err := runs.Run(t.Context(), e.thread, q, a.Work)
					if err == nil || r.Status != run.Failed || !strings.Contains(r.Error, naming) {
						t.Errorf("run %+v, %v; want it failed, naming %s", r, err, naming)
					}
					return r.ID
				}
				first := unanswered(e)
				naming := fails(run.Request{}, first)
				fails(run.Request{}, first)
				fails(run.Request{ResumedFrom: naming}, first)
				second := fails(run.Request{ResumedFrom: first}, "posted") // that the script does not know
				naming = fails(run.Request{}, second)
				for _, q := range []run.Request{{ResumedFrom: second}, {}, {ResumedFrom: naming}} {
					if r, err := runs.Run(t.Context(), e.thread, q, good.Work); err != nil || r.Status != run.Succeeded {
						t.Errorf("%+v: run %+v, %v", q, r, err)
					}
				}
				answers := 0
				for _, turn := range e.turns() {
					for _, b := range turn.Response {
						answers += strings.Count(b.Content, "Seen.")
					}
				}
				if answers != 1 {
					t.Errorf("it was answered %d times", answers)
				}
			})
		})
	}
}

// Runs that say nothing, or only which run failed, do not crowd out what was said before.
func TestRunsThatSayNothingAreNotThePast(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a := e.agent("turns:\n  - prompt: x\n    steps: [{text: y}]\n", nil)
		e.turn("the file is x.go", "noted")
		for range 12 {
			e.work(run.Request{}, nil)
		}
		if _, past := e.recalled(a, run.Request{Prompt: "which file?"}); !strings.Contains(past, "x.go") {
			t.Errorf("told of %s", past)
		}
	})
}

func TestAResumedRunWithAPromptKeepsThePictureOfTheFirst(t *testing.T) {
	t.Run("of its prompt", func(t *testing.T) { keepsThePicture(t, false) })
	t.Run("that was posted", func(t *testing.T) { keepsThePicture(t, true) })
}

func keepsThePicture(t *testing.T, posted bool) {
	each(t, func(t *testing.T, e *env) {
		picture := thread.Attachment("dot.png", "image/png", "https://dot.example/dot.png")
		down := func(context.Context, *run.Handle) error { return errors.New("down") }
		failed := e.work(run.Request{Prompt: "what is it", Blocks: []thread.Block{picture}}, down)
		if posted { // while another run works
			e.work(run.Request{Prompt: "first"}, func(context.Context, *run.Handle) error {
				e.say(thread.TextBlock("what is it"), picture)
				return nil
			})
			failed = e.work(run.Request{}, down)
		}
		_, err := run.In(e.sp, nil).Run(t.Context(), e.thread, run.Request{Prompt: "quickly", ResumedFrom: failed}, func(ctx context.Context, h *run.Handle) error {
			a := e.agent("turns:\n  - prompt: x\n    steps: [{text: y}]\n", nil)
			c := &Context{Store: h.Space().Store(), Sandbox: a.opts.Sandbox, TodoThread: h.Thread(), agent: a}
			c.bind(h, nil)
			r, err := h.Get(ctx)
			if err != nil {
				return err
			}
			if req, _, _, err := a.recall(ctx, c, r); err != nil || req.Prompt != "what is it\n\nquickly" || len(req.Attachments) != 1 {
				t.Errorf("asked %+v, %v", req, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

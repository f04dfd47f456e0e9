package agent

import (
	"context"
	"encoding/json"
	"errors"
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
		if r, err := runs.Run(t.Context(), e.thread, run.Request{}, a.Work); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("run %+v answered the message again: %v", r, err)
		}
	})
}

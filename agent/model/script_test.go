package model

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
)

const sample = `
turns:
  - prompt: Create a button
    steps:
      - text: I will create it.
        tool_calls:
          - {name: Write, input: {path: src/Button.tsx, content: "<b style={{ x: 1 }}>"}}
          - {name: Todo}
      - expect: ["[tool_result Write]", '/^done Todo$/']
        text: Created.
  - prompt: Make it blue
    steps:
      - expect: [Create a button, '/Write\].*Button/']
        capture: {file: 'Write\] .*"path":"([^"]+)"'}
        text: "Now {{file}}."
        tool_calls:
          - {name: Edit, input: {path: "{{file}}", edits: [{old: x, new: "{{ file }}", n: 2, all: true}]}}
        usage: {input_tokens: 100, output_tokens: 20}
      - text: "{{file}} is blue."
  - prompt: /(?i)^again/
    steps: [{text: first}]
  - prompt: /(?i)^again/
    steps: [{text: second}]
  - prompt: fall over
    steps: [{text: Half of a sen, error: the line went dead}]
`

// chat is the loop of an agent and nothing else.
type chat struct {
	t    *testing.T
	m    Model
	req  Request
	last Response
}

// say sends a prompt, does all tool calls, and returns what the model said.
func (c *chat) say(prompt string) (string, error) {
	c.req.Messages = append(c.req.Messages, Message{User, []Block{{Type: Text, Text: prompt}}})
	said := ""
	for {
		resp, err := c.m.Generate(c.t.Context(), c.req, func(d Delta) error { said += d.Text; return nil })
		if err != nil {
			return said, err
		}
		c.last = resp
		c.req.Messages = append(c.req.Messages, Message{Assistant, resp.Blocks})
		if resp.Stop != StopTools {
			return said, nil
		}
		var results []Block
		for _, b := range resp.Blocks {
			if b.Type == ToolCall {
				results = append(results, Block{Type: ToolResult, ID: b.ID, Name: b.Name, Text: "done " + b.Name})
			}
		}
		c.req.Messages = append(c.req.Messages, Message{User, results})
	}
}

func script(t *testing.T, text string) *Script {
	t.Helper()
	s, err := ParseScript("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAScriptPlaysItsTurnsAndTakesPathsFromHistory(t *testing.T) {
	c := &chat{t: t, m: script(t, sample)}
	for _, turn := range []struct{ prompt, want string }{
		{"Create a button component", "I will create it.Created."},
		{"Make it blue", "Now src/Button.tsx.src/Button.tsx is blue."},
		{"Again!", "first"}, {"again", "second"}, {"again", "second"},
	} {
		if got, err := c.say(turn.prompt); err != nil || got != turn.want {
			t.Fatalf("%s = %q, %v; want %q", turn.prompt, got, err, turn.want)
		}
	}
	prompt := Render(c.req)
	for _, want := range []string{
		`[tool_call Write] {"content":"<b style={{ x: 1 }}>","path":"src/Button.tsx"}`,
		`[tool_call Edit] {"edits":[{"all":true,"n":2,"new":"src/Button.tsx","old":"x"}],"path":"src/Button.tsx"}`,
		"[tool_call Todo] {}",
	} {
		if !strings.Contains(prompt, want) {
			t.Errorf("the history lacks %s:\n%s", want, prompt)
		}
	}
}

func TestAScriptGoesOnWhereAnotherProcessStopped(t *testing.T) {
	c := &chat{t: t, m: script(t, sample), req: Request{Messages: []Message{
		{User, []Block{{Type: Text, Text: "Create a button"}}},
		{Assistant, []Block{{Type: ToolCall, ID: "1", Name: "Write", Input: json.RawMessage(`{"path":"p"}`)}, {Type: ToolCall, ID: "2", Name: "Todo"}}},
		{User, []Block{{Type: ToolResult, ID: "1", Name: "Write", Text: "interrupted", Failed: true}, {Type: ToolResult, ID: "2", Name: "Todo", Text: "x"}}},
	}}}
	_, err := c.m.Generate(t.Context(), c.req, nil)
	if err == nil || !strings.Contains(err.Error(), `turn 1 (Create a button), step 2: expected "[tool_result Write]"`) {
		t.Errorf("Generate = %v, want the second step's expectation", err)
	}
	c.req.Messages[2].Blocks[0].Failed = false
	c.req.Messages[2].Blocks[1].Text = "done Todo"
	got, err := c.m.Generate(t.Context(), c.req, nil)
	if err != nil || got.Blocks[0].Text != "Created." {
		t.Errorf("Generate = %+v, %v; want the second step", got, err)
	}
}

func TestAScriptMakesTheRestOfAStepThatACrashCut(t *testing.T) {
	s := script(t, sample)
	got, err := s.Generate(t.Context(), Request{Messages: []Message{
		{User, []Block{{Type: Text, Text: "Create a button"}}},
		{Assistant, []Block{{Type: ToolCall, ID: "1", Name: "Write", Input: json.RawMessage(`{"path":"p"}`)}}},
		{User, []Block{{Type: ToolResult, ID: "1", Name: "Write", Text: "done"}}},
	}}, nil)
	if err != nil || len(got.Blocks) != 1 || got.Blocks[0].Name != "Todo" {
		t.Errorf("Generate = %+v, %v; want the call of Todo alone", got.Blocks, err)
	}
}

func TestWithoutToolHistoryTheSecondTurnFails(t *testing.T) {
	c := &chat{t: t, m: script(t, sample)}
	if _, err := c.say("Create a button"); err != nil {
		t.Fatal(err)
	}
	c.req.Messages = c.req.Messages[:1] // all but the prompt removed
	_, err := c.say("Make it blue")
	if err == nil || !strings.Contains(err.Error(), `script:test: turn 2 (Make it blue), step 1: expected "/Write\\].*Button/" in the prompt`) {
		t.Errorf("error = %v, want one that names the turn, the step and the missing part", err)
	}
}

func TestAScriptSaysWhatItCannotAnswer(t *testing.T) {
	s := script(t, sample)
	result := Message{User, []Block{{Type: ToolResult}}}
	prompt := func(text string) Message { return Message{User, []Block{{Type: Text, Text: text}}} }
	for want, messages := range map[string][]Message{
		"no text of a user":                          {{Role: Assistant}},
		`no turn has the prompt "Dance"`:             {prompt("Create a button"), prompt("Dance")},
		"it has 2 steps, and one more was asked for": {prompt("Create a button"), result, result, result},
		"to capture":                                 {prompt("Create a button"), prompt("Write] Button"), prompt("Make it blue")},
	} {
		if _, err := s.Generate(t.Context(), Request{Messages: messages}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Generate = %v, want %q", err, want)
		}
	}
}

func TestAScriptedErrorComesAfterItsText(t *testing.T) {
	c := &chat{t: t, m: script(t, sample)}
	said, err := c.say("fall over")
	if said != "Half of a sen" || !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), "went dead") {
		t.Errorf("said %q, %v; want the text, then ErrIncomplete", said, err)
	}
}

func TestUsageIsTheScriptsOrAGuess(t *testing.T) {
	c := &chat{t: t, m: script(t, sample)}
	if _, err := c.say("again"); err != nil {
		t.Fatal(err)
	}
	// "[user]\nagain\n" has 13 bytes, "first" 5.
	if want := (Usage{InputTokens: 4, OutputTokens: 2, TotalTokens: 6}); c.last.Usage != want {
		t.Errorf("Usage = %+v, want %+v", c.last.Usage, want)
	}
}

func TestAScriptStreamsSlowlyAndStopsOnCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script(t, "delay_ms: 100\nturns: [{prompt: go, steps: [{text: 'a text of some length, so that it takes a while'}]}]")
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(250*time.Millisecond, func() { cancel(cause) })
		begin, said := time.Now(), ""
		req := Request{Messages: []Message{{User, []Block{{Type: Text, Text: "go"}}}}}
		resp, err := s.Generate(ctx, req, func(d Delta) error { said += d.Text; return nil })
		if !errors.Is(err, cause) || time.Since(begin) != 250*time.Millisecond {
			t.Errorf("Generate = %v after %v, want the cause at once", err, time.Since(begin))
		}
		if want := "a text of some length, s"; said != want || resp.Blocks[0].Text != want {
			t.Errorf("said %q, returned %+v; want %q", said, resp.Blocks, want)
		}
	})
}

func TestABadScriptIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "no turns",
		"turns: []":                           "no turns",
		"turnz: []":                           "turnz",
		"turns: [{steps: [{}]}]":              "no prompt",
		"turns: [{prompt: x}]":                "no steps",
		"turns: [{prompt: /(/, steps: [{}]}]": "missing closing",
		"turns: [{prompt: x, steps: [{text: a}, {text: b}]}]":                          "step 2 can never come",
		"turns: [{prompt: x, steps: [{capture: {f: x}}]}]":                             "one group",
		"turns: [{prompt: x, steps: [{tool_calls: [{input: {}}]}]}]":                   "no name",
		"turns: [{prompt: x, steps: [{tool_calls: [{name: a, input: [1]}]}]}]":         "cannot unmarshal",
		"turns: [{prompt: x, steps: [{tool_calls: [{name: a, input: {b: {1: 2}}}]}]}]": "unsupported type",
		"\t": "",
	} {
		if _, err := ParseScript("bad", []byte(text)); !errors.Is(err, thole.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseScript(%q) = %v, want ErrInvalid with %q", text, err, want)
		}
	}
	s := script(t, "turns: [{prompt: x, steps: [{text: '{{nothing}}'}]}]")
	c := &chat{t: t, m: s}
	if _, err := c.say("x"); err == nil || !strings.Contains(err.Error(), "{{nothing}} was not captured") {
		t.Errorf("error = %v, want the uncaptured name", err)
	}
}

func FuzzParseScript(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("turns: [{prompt: x, steps: [{capture: {a: '(x)'}, text: '{{a}}'}]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseScript("fuzz", data)
		if err != nil {
			return
		}
		for _, turn := range s.turns { // it plays a turn or returns an error, but never panics
			req := Request{Messages: []Message{{User, []Block{{Type: Text, Text: turn.Prompt.text}}}}}
			s.delay = 0
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			s.Generate(ctx, req, nil)
			cancel()
		}
	})
}

func TestOpenPlaysAScriptFromAFile(t *testing.T) {
	file := t.TempDir() + "/demo.yaml"
	if err := os.WriteFile(file, []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Open("script:"+file, nil)
	if err != nil || m.Name() != "script:demo.yaml" {
		t.Fatalf("Open = %v, %v", m, err)
	}
	if got, err := (&chat{t: t, m: m}).say("again"); err != nil || got != "first" {
		t.Errorf("said %q, %v", got, err)
	}
}

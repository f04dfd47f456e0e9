// Package history tells a model of the past turns of a thread: who said what, and
// which tools were called with what, so that "make it blue" knows which file was
// made. It needs no agent: a worker with a loop of its own writes
//
//	for _, m := range history.Of(turns) {
//		prompt = append(prompt, m.Role, m.Render(history.CutResults))
//	}
//
// [Recall] finds those turns, and what a run is asked.
package history

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/thole-dev/thole/internal/clip"
	"github.com/thole-dev/thole/state/thread"
)

// Message is one side of a past turn, as a model is told of it.
type Message struct {
	Role    string     `json:"role"` // user or assistant
	Content string     `json:"content"`
	Tools   []ToolCall `json:"tools,omitempty"`
}

// ToolCall is a tool call of a past turn with its result.
type ToolCall struct {
	Name   string          `json:"name"`
	Input  json.RawMessage `json:"input,omitempty"`
	Result string          `json:"result,omitempty"`
	Status string          `json:"status,omitempty"` // done, error or interrupted
}

// Filter decides what the model is shown of a past tool call: the call as
// it returns it, or nothing of it for false.
type Filter func(ToolCall) (ToolCall, bool)

// maxResult is what the default filter leaves of a result.
const maxResult = 2 << 10

// CutResults is the default Filter: everything, with results cut at 2 kB
// and without the task list, which would be an old one.
func CutResults(c ToolCall) (ToolCall, bool) {
	if i := strings.LastIndex(c.Result, todoHeading); i >= 0 {
		c.Result = c.Result[:i]
	}
	c.Result = clip.Text(c.Result, maxResult)
	return c, true
}

// todoHeading is how todo.Format begins.
const todoHeading = "\n\n=== Current Task List ===\n"

// Of returns turns as messages.
func Of(turns []*thread.Turn) []Message {
	var out []Message
	for _, t := range turns {
		if len(t.Request) > 0 {
			out = append(out, Fold(thread.User, t.Request))
		}
		if len(t.Response) == 0 {
			continue
		}
		m := Fold(thread.Assistant, t.Response)
		if t.Status == thread.Interrupted {
			m.Content = strings.TrimSpace(m.Content + "\n\n[interrupted: this answer was not finished]")
		}
		out = append(out, m)
	}
	return out
}

// Fold makes one message of blocks: text in order, then what tools did.
// Reasoning and notices are not part of what was said.
func Fold(role string, blocks []thread.Block) Message {
	m := Message{Role: role}
	var text []string
	for i := range blocks {
		switch b := &blocks[i]; b.Type {
		case thread.Text, thread.Code, thread.Summary:
			text = append(text, b.Content)
		case thread.Failure:
			text = append(text, "[error] "+b.Content)
		case thread.Image, thread.File: // a data URL does not belong into every later prompt
			text = append(text, "["+b.Type+": "+nameOf(b)+"]")
		case thread.ToolUse:
			m.Tools = append(m.Tools, ToolCall{
				Name: b.Tool.Name, Input: b.Tool.Input, Result: Text(b.Tool.Result), Status: b.Status,
			})
		}
	}
	m.Content = strings.Join(text, "\n\n")
	return m
}

// Render returns the message as a model reads it: its text, then a line for
// each tool call that filter lets through.
func (m *Message) Render(filter Filter) string {
	oneLine := strings.NewReplacer("\r", "\\r", "\n", "\\n") // so that nothing looks like another call
	var calls []string
	for _, c := range m.Tools {
		c, ok := filter(c)
		if !ok {
			continue
		}
		var input bytes.Buffer
		if json.Compact(&input, c.Input) != nil {
			input.Reset()
			input.Write(c.Input)
		}
		line := "- " + c.Name + ": " + input.String()
		switch {
		case c.Status == thread.Interrupted:
			line += " → " + strings.TrimSpace("[interrupted: it did not end, whether it had its effect is not known] "+c.Result)
		case c.Status == thread.Error:
			line += " → [error] " + c.Result
		case c.Result != "":
			line += " → " + c.Result
		}
		calls = append(calls, oneLine.Replace(line))
	}
	if calls == nil {
		return m.Content
	}
	return m.Content + "\n\nTools called:\n" + strings.Join(calls, "\n")
}

// nameOf is short: a data URL does not belong into every later prompt.
func nameOf(b *thread.Block) string {
	var name string
	if json.Unmarshal(b.Meta["name"], &name) == nil && name != "" {
		return name
	}
	return clip.Text(b.Content, 200)
}

// Text is a JSON string's text, and any other JSON as it is: the results of other
// programs' tools may be that.
func Text(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	return string(data)
}

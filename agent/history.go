package agent

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/state/thread"
)

// This file turns what a thread holds into what a model is told: past turns as a
// message each, a turn that goes on call by call.

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

// ToolHistory decides what the model is shown of a past tool call: the call as
// it returns it, or nothing of it for false.
type ToolHistory func(ToolCall) (ToolCall, bool)

// maxResult is what the default filter leaves of a result.
const maxResult = 2 << 10

// CutResults is the default ToolHistory: everything, with results cut at 2 kB
// and without the task list, which would be an old one.
func CutResults(c ToolCall) (ToolCall, bool) {
	if i := strings.LastIndex(c.Result, todoHeading); i >= 0 {
		c.Result = c.Result[:i]
	}
	c.Result = cut(c.Result, maxResult)
	return c, true
}

// WithoutTools is a ToolHistory that shows nothing.
func WithoutTools(ToolCall) (ToolCall, bool) { return ToolCall{}, false }

// todoHeading is how todo.Format begins.
const todoHeading = "\n\n=== Current Task List ===\n"

// past returns turns as messages.
func past(turns []*thread.Turn) []Message {
	var out []Message
	for _, t := range turns {
		if len(t.Request) > 0 {
			out = append(out, fold(thread.User, t.Request))
		}
		if len(t.Response) == 0 {
			continue
		}
		m := fold(thread.Assistant, t.Response)
		if t.Status == thread.Interrupted {
			m.Content = strings.TrimSpace(m.Content + "\n\n[interrupted: this answer was not finished]")
		}
		out = append(out, m)
	}
	return out
}

// fold makes one message of blocks: text in order, then what tools did.
// Reasoning and notices are not part of what was said.
func fold(role string, blocks []thread.Block) Message {
	m := Message{Role: role}
	var text []string
	for i := range blocks {
		switch b := &blocks[i]; b.Type {
		case thread.Text, thread.Code, thread.Summary:
			text = append(text, b.Content)
		case thread.Failure:
			text = append(text, "[error] "+b.Content)
		case thread.Image, thread.File: // a data URL does not belong into every later prompt
			name := meta(b, "name")
			if name == "" {
				name = cut(b.Content, 200)
			}
			text = append(text, "["+b.Type+": "+name+"]")
		case thread.ToolUse:
			m.Tools = append(m.Tools, ToolCall{
				Name: b.Tool.Name, Input: b.Tool.Input, Result: asText(b.Tool.Result), Status: b.Status,
			})
		}
	}
	m.Content = strings.Join(text, "\n\n")
	return m
}

// render returns the message as a model reads it: its text, then a line for
// each tool call that filter lets through.
func (m *Message) render(filter ToolHistory) string {
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

// replay returns what an interrupted turn came to as the messages that it
// consisted of, for a model to go on from. A call that is known not to have
// begun is left out, so that the model makes it again; one that ran, or may
// have, has a result that says so. Text that no call followed was never finished,
// and is left out too.
func replay(blocks []thread.Block, fates map[string]fate) []model.Message {
	var out []model.Message
	var said, results []model.Block
	flush := func() {
		if len(results) > 0 {
			out = append(out, model.Message{Role: model.Assistant, Blocks: said}, model.Message{Role: model.User, Blocks: results})
			said, results = nil, nil
		}
	}
	for i := range blocks {
		switch b := &blocks[i]; b.Type {
		case thread.Text:
			flush()
			said = append(said, model.Block{Type: model.Text, Text: b.Content})
		case thread.ToolUse:
			f, decided := fates[b.ID]
			if !decided && b.Tool.Name == taskTool {
				f = fates[taskTool]
			}
			text, failed, ran := f.result()
			if b.Status == thread.Done || b.Status == thread.Error {
				text, failed, ran = asText(b.Tool.Result), b.Status == thread.Error, true
			}
			if ran {
				said = append(said, model.Block{Type: model.ToolCall, ID: b.ID, Name: b.Tool.Name, Input: object(b.Tool.Input)})
				results = append(results, model.Block{Type: model.ToolResult, ID: b.ID, Name: b.Tool.Name, Text: text, Failed: failed})
			}
		}
	}
	flush()
	return out
}

// object is an input as models must have it.
func object(input json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(input, &m) != nil {
		return json.RawMessage("{}")
	}
	return input
}

// asText is a JSON string's text, and any other JSON as it is: results of other
// programs may be that.
func asText(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	return string(data)
}

// meta is a member of a block's meta; "" if it is no string.
func meta(b *thread.Block, name string) (text string) {
	_ = json.Unmarshal(b.Meta[name], &text)
	return text
}

// cut returns at most n bytes of s, whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const more = "…"
	n -= len(more)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + more
}

// join puts more on a line of its own.
func join(text, more string) string {
	if text == "" || more == "" {
		return text + more
	}
	return text + "\n" + more
}

package agent

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
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

// render returns the message as a model reads it: its text, then a line for
// each tool call that filter lets through.
func (m *Message) render(filter ToolHistory) string {
	var b strings.Builder
	b.WriteString(m.Content)
	first := true
	for _, c := range m.Tools {
		c, ok := filter(c)
		if !ok {
			continue
		}
		if first {
			b.WriteString("\n\nTools called:\n")
		} else {
			b.WriteByte('\n')
		}
		first = false
		b.WriteString("- " + c.Name + ": " + oneLine(compact(c.Input)))
		if result := c.shown(); result != "" {
			b.WriteString(" → " + oneLine(result))
		}
	}
	return b.String()
}

// shown is the result with what the model must know about how it came about.
func (c *ToolCall) shown() string {
	switch c.Status {
	case statusInterrupted:
		return strings.TrimSpace("[interrupted: it did not end, whether it had its effect is not known] " + c.Result)
	case statusError:
		return "[error] " + c.Result
	}
	return c.Result
}

func compact(input json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, input) != nil {
		return string(input)
	}
	return b.String()
}

// oneLine keeps what a file or a command says from looking like another call.
func oneLine(s string) string {
	return strings.NewReplacer("\r", "\\r", "\n", "\\n").Replace(s)
}

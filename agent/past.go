package agent

import (
	"encoding/json"
	"strings"

	"github.com/thole-dev/thole/state/thread"
)

// Roles and statuses, as the thread has them.
const (
	roleUser          = thread.User
	roleAssistant     = thread.Assistant
	statusInterrupted = thread.Interrupted
	statusError       = thread.Error
)

// past returns turns as messages.
func past(turns []*thread.Turn) []Message {
	var out []Message
	for _, t := range turns {
		if len(t.Request) > 0 {
			out = append(out, fold(roleUser, t.Request))
		}
		if len(t.Response) == 0 {
			continue
		}
		m := fold(roleAssistant, t.Response)
		if t.Status == statusInterrupted {
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
		b := &blocks[i]
		switch b.Type {
		case thread.Text, thread.Code, thread.Summary:
			text = append(text, b.Content)
		case thread.Failure:
			text = append(text, "[error] "+b.Content)
		case thread.Image, thread.File:
			text = append(text, "["+b.Type+": "+attachmentName(b)+"]")
		case thread.ToolUse:
			m.Tools = append(m.Tools, ToolCall{
				Name: b.Tool.Name, Input: b.Tool.Input, Result: resultText(b.Tool.Result), Status: b.Status,
			})
		}
	}
	m.Content = strings.Join(text, "\n\n")
	return m
}

// attachmentName is short: a data URL does not belong into every later prompt.
func attachmentName(b *thread.Block) string {
	var name string
	if json.Unmarshal(b.Meta["name"], &name) == nil && name != "" {
		return name
	}
	return cut(b.Content, 200)
}

// resultText is a result as text: those of other programs may be any JSON.
func resultText(result json.RawMessage) string {
	var text string
	if json.Unmarshal(result, &text) == nil {
		return text
	}
	return string(result)
}

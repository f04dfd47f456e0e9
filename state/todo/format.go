package todo

import (
	"fmt"
	"strings"
)

// Format returns the list as an agent sees it: a heading, a line per todo, and
// a rule. An empty list is "". A line break in a content becomes a space, so
// that a todo is one line.
func Format(todos []Todo) string {
	if len(todos) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n\n=== Current Task List ===\n")
	for _, t := range todos {
		content := strings.Join(strings.FieldsFunc(t.Content, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
		fmt.Fprintf(&b, "%s [%s] %s (%s priority)\n", t.Status.symbol(), t.ID, content, t.Priority)
	}
	b.WriteString(strings.Repeat("=", 24))
	return b.String()
}

// AppendTo returns a tool's result followed by the list, so that the agent
// knows after every call what is done, under way and next.
func AppendTo(result string, todos []Todo) string { return result + Format(todos) }

func (s Status) symbol() string {
	switch s {
	case Completed:
		return "✅"
	case InProgress:
		return "🔄"
	case Cancelled:
		return "🚫"
	}
	return "⏳"
}

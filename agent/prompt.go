package agent

import (
	"fmt"
	"strings"

	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/agent/sandbox"
)

// DefaultSystem is the system prompt of an agent without one of its own.
const DefaultSystem = `You are a coding agent. You work on the files of one project through your tools, and you finish what you are asked before you answer.

- Read a file before you edit it. Paths are relative to the project.
- Prefer Edit to Write for files that exist. When a tool reports a conflict, somebody else changed the file: read it again and fit your change to theirs.
- Keep the task list current with Todo when a request takes several steps.
- Past turns name the tools that were called and the files they touched: go on from there.
- When you are done, say in a few sentences what you did.`

// maxListed bounds how many files the system prompt names.
const maxListed = 200

// system returns the system prompt of a run.
func (a *Agent) system(c *Context, req *Request) string {
	var b strings.Builder
	b.WriteString(a.opts.System)
	if c.Template != "" {
		fmt.Fprintf(&b, "\n\nThe project was made from the template %s.", c.Template)
	}
	if c.GitRepo != "" {
		fmt.Fprintf(&b, "\n\nIts git repository is %s.", c.GitRepo)
	}
	files := req.FileStructure
	if files == "" {
		files = fileStructure(c.Sandbox)
	}
	if files != "" {
		b.WriteString("\n\nFiles of the project:\n" + files)
	}
	return b.String()
}

// fileStructure lists the sandbox. One that cannot be listed degrades to
// nothing: the tools will say what is wrong.
func fileStructure(sb *sandbox.Sandbox) string {
	list, more, err := sb.List(".", &sandbox.ListOptions{Limit: maxListed})
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(listed(list, more), "\n")
}

// messages returns what the model is told of the past, and the request.
func (a *Agent) messages(history []Message, req *Request) []model.Message {
	var out []model.Message
	for i := range history {
		text := history[i].render(a.opts.ToolHistory)
		if text == "" {
			continue
		}
		out = append(out, model.Message{Role: model.Role(history[i].Role), Blocks: []model.Block{{Type: model.Text, Text: text}}})
	}
	now := model.Message{Role: model.User}
	if req.Prompt != "" {
		now.Blocks = append(now.Blocks, model.Block{Type: model.Text, Text: req.Prompt})
	}
	for i := range req.Attachments {
		now.Blocks = append(now.Blocks, req.Attachments[i].block())
	}
	return append(out, now)
}

package agent

import (
	"fmt"
	"strings"

	"github.com/thole-dev/thole/agent/history"
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

// prompt returns what a model is asked first: the system prompt, the tools, what
// is told of the past, and the request.
func (a *Agent) prompt(c *Context, past []history.Message, req *Request) model.Request {
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
		// A directory that cannot be listed is left out: the tools will say what is wrong.
		list, more, _ := c.Sandbox.List(".", &sandbox.ListOptions{Limit: maxListed})
		files = strings.TrimSuffix(sandbox.Lines(list, more), "\n")
	}
	if files != "" {
		b.WriteString("\n\nFiles of the project:\n" + files)
	}
	ask := model.Request{System: b.String(), Tools: a.offered(c)}
	for i := range past {
		if text := past[i].Render(a.opts.ToolHistory); text != "" {
			ask.Messages = append(ask.Messages, model.Message{Role: model.Role(past[i].Role), Blocks: []model.Block{{Type: model.Text, Text: text}}})
		}
	}
	now := model.Message{Role: model.User}
	if req.Prompt != "" {
		now.Blocks = append(now.Blocks, model.Block{Type: model.Text, Text: req.Prompt})
	}
	for _, at := range req.Attachments {
		now.Blocks = append(now.Blocks, model.Attached(at.Name, at.Type, at.URL, at.data))
	}
	ask.Messages = append(ask.Messages, now)
	return ask
}

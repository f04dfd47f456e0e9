package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

const taskTool = "Task"

type taskInput struct {
	Description string `json:"description,omitempty" jsonschema:"description=What it is\\, in a few words"`
	Prompt      string `json:"prompt" jsonschema:"minLength=1,description=All that the sub-agent needs to know: it sees nothing of this conversation"`
}

// TaskTool hands a piece of work to a sub-agent: a run of its own, in a private
// thread of its own, that ends with this one. What the sub-agent says last is
// the result.
func TaskTool() Tool {
	return NewTool(taskTool, "Gives a piece of work to a sub-agent with the same tools and task list, and returns its answer.", task, nil)
}

func task(ctx context.Context, c *Context, _ *Call, in taskInput) (Output, error) {
	a := c.agent
	if c.Depth >= a.opts.MaxDepth {
		return Output{}, fmt.Errorf("%w: a sub-agent this deep cannot have one of its own", thole.ErrInvalid)
	}
	var id, threadID, answer string
	err := c.Runs.Do(ctx, "", run.Request{Prompt: in.Prompt, Agent: a.opts.Name, Parent: c.Run}, func(ctx context.Context, h *run.Handle) error {
		id, threadID = h.ID(), h.Thread()
		r, err := h.Get(ctx)
		if err != nil {
			return err
		}
		if err := a.carryOut(ctx, c.Sub(h), r, RunOptions{UserID: c.UserID, UserEmail: c.UserEmail, DesktopClient: c.DesktopClient}); err != nil {
			return err
		}
		answer, err = lastText(ctx, thread.In(h.Space()), h)
		return err
	})
	out := Output{Text: answer, Meta: map[string]any{"run": id, "thread": threadID, "description": in.Description}}
	if err != nil {
		return out, fmt.Errorf("the sub-agent did not finish: %w", err)
	}
	if answer == "" {
		out.Text = "[the sub-agent finished without a word]"
	}
	return out, nil
}

// lastText returns what the run's turn says after its last tool call.
func lastText(ctx context.Context, threads *thread.Threads, h *run.Handle) (string, error) {
	if err := h.Flush(ctx); err != nil {
		return "", err
	}
	page, err := threads.Turns(ctx, h.Thread(), &thread.Query{Last: 1})
	if err != nil {
		return "", err
	}
	if len(page.Items) == 0 || page.Items[0].ID != h.Turn() {
		return "", errors.New("the sub-agent's turn is not in its thread")
	}
	blocks := page.Items[0].Response
	for i := len(blocks) - 1; i >= 0; i-- {
		if blocks[i].Type == thread.ToolUse {
			blocks = blocks[i+1:]
			break
		}
	}
	return fold(roleAssistant, blocks).Content, nil
}

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/history"
	"github.com/thole-dev/thole/internal/clip"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

const taskTool = "Task"

type taskInput struct {
	Description string `json:"description,omitempty" jsonschema:"description=What it is\\, in a few words"`
	Prompt      string `json:"prompt" jsonschema:"minLength=1,description=All that the sub-agent needs to know: it sees nothing of this conversation"`
}

// task hands a piece of work to a sub-agent: a run of its own, in a private
// thread of its own, that ends with this one. What the sub-agent says last is
// the result. What one did that does not finish is in its own decisions.
func task(ctx context.Context, c *Context, call *Call, in taskInput) (Output, error) {
	a := c.agent
	if c.Depth >= a.opts.MaxDepth {
		return Output{}, fmt.Errorf("%w: a sub-agent this deep cannot have one of its own", thole.ErrInvalid)
	}
	var id, threadID, answer string
	err := c.act(ctx, call, action{Task: clip.Text(in.Prompt, maxBrief), rationale: in.Description}, func(decision string) (outcome, error) {
		options, err := json.Marshal(RunOptions{Task: decision})
		if err != nil {
			return never(err), err
		}
		err = c.Runs.Do(ctx, "", run.Request{Prompt: in.Prompt, Agent: a.opts.Name, Parent: c.Run, Options: options}, func(ctx context.Context, h *run.Handle) error {
			id, threadID = h.ID(), h.Thread()
			if err := a.carryOut(ctx, c.Sub(h)); err != nil {
				return err
			}
			if err := h.Flush(ctx); err != nil {
				return err
			}
			var err error
			answer, err = lastText(ctx, thread.In(h.Space()), h.Thread(), h.Turn())
			return err
		})
		if id == "" && err != nil {
			return never(err), err
		}
		return outcome{Output: clip.Text(answer, maxShown)}, err
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

// lastText returns what a run's turn says after its last tool call.
func lastText(ctx context.Context, threads *thread.Threads, threadID, turn string) (string, error) {
	page, err := threads.Turns(ctx, threadID, &thread.Query{Last: 1})
	if err != nil {
		return "", err
	}
	if len(page.Items) == 0 || page.Items[0].ID != turn {
		return "", errors.New("the sub-agent's turn is not in its thread")
	}
	blocks := page.Items[0].Response
	for i := len(blocks) - 1; i >= 0; i-- {
		if blocks[i].Type == thread.ToolUse {
			blocks = blocks[i+1:]
			break
		}
	}
	return history.Fold(thread.Assistant, blocks).Content, nil
}

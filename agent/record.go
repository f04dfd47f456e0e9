package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// This file holds what a run tells its thread.

// lastWords is how long a run that was cancelled may take to record what
// happened.
const lastWords = 10 * time.Second

// afterwards returns a context for recording what has happened already, even
// when ctx has ended.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), lastWords)
}

// speech streams one answer of the model into the thread.
type speech struct {
	ctx context.Context
	c   *Context
	any bool // something came
}

func (s *speech) delta(d model.Delta) error {
	s.any = true
	switch {
	case d.Text != "":
		return s.c.handle.Text(s.ctx, d.Text)
	case d.Reasoning != "":
		return s.c.handle.Reasoning(s.ctx, d.Reasoning)
	}
	return nil // the call comes whole, with the response
}

// notice adds a remark about the run itself to the thread.
func (c *Context) notice(ctx context.Context, text string) error {
	_, err := c.handle.Block(ctx, thread.Block{Type: thread.Notice, Content: text})
	return err
}

// addUsage counts what a call to a model cost, also one that was cancelled.
func (c *Context) addUsage(ctx context.Context, u model.Usage) error {
	if u == (model.Usage{}) {
		return nil
	}
	ctx, cancel := afterwards(ctx)
	defer cancel()
	return c.handle.AddUsage(ctx, c.model, run.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, TotalTokens: u.TotalTokens,
	})
}

func (c *Context) finishTool(ctx context.Context, block, text string, meta map[string]any, failed bool) error {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	result, err := json.Marshal(text)
	for err == nil && len(result) > maxInput { // escapes make it longer than text
		text = cut(text, len(text)/2)
		result, err = json.Marshal(text)
	}
	if err != nil {
		return err
	}
	raw := make(map[string]json.RawMessage, len(meta))
	for k, v := range meta {
		if raw[k], err = json.Marshal(v); err != nil {
			return err
		}
	}
	return c.handle.FinishTool(ctx, block, thread.ToolResult{Result: result, Meta: raw, Failed: failed})
}

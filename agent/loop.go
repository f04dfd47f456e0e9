package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/thole-dev/thole/agent/model"
)

// converse lets the model answer, runs the tools that it calls, and goes on so
// until it calls none.
func (a *Agent) converse(ctx context.Context, c *Context, m model.Model, ask model.Request) error {
	for range a.opts.MaxSteps {
		resp, err := a.answer(ctx, c, m, ask)
		if err != nil {
			return err
		}
		var calls []model.Block
		for _, b := range resp.Blocks {
			if b.Type == model.ToolCall {
				calls = append(calls, b)
			}
		}
		if len(calls) == 0 {
			return a.ended(ctx, c, resp)
		}
		results, err := a.callAll(ctx, c, calls)
		if err != nil {
			return err
		}
		ask.Messages = append(ask.Messages,
			model.Message{Role: model.Assistant, Blocks: resp.Blocks},
			model.Message{Role: model.User, Blocks: results})
	}
	return fmt.Errorf("the model called tools %d times without coming to an end", a.opts.MaxSteps)
}

// ended looks at why a model stopped that called no tool.
func (a *Agent) ended(ctx context.Context, c *Context, resp model.Response) error {
	switch resp.Stop {
	case model.StopRefusal:
		return errors.New("the model refused to answer")
	case model.StopLength:
		return c.notice(ctx, "The answer reached its limit of tokens and ends early.")
	}
	return nil
}

// answer has the model say one message, which is streamed into the thread. One
// that breaks off is noted there and asked for again, a bounded number of
// times; what came of it stays.
func (a *Agent) answer(ctx context.Context, c *Context, m model.Model, ask model.Request) (model.Response, error) {
	system := ask.System
	for try := 1; ; try++ {
		if err := c.wanted(ctx); err != nil {
			return model.Response{}, err
		}
		say := &speech{ctx: ctx, c: c}
		resp, err := m.Generate(ctx, ask, say.delta)
		if usageErr := c.addUsage(ctx, resp.Usage); usageErr != nil && err == nil {
			err = usageErr
		}
		if err == nil {
			if err := a.opts.Hooks.beforeMessage(ctx, c, roleAssistant, text(resp.Blocks)); err != nil {
				return model.Response{}, fmt.Errorf("refused: %w", err)
			}
			a.opts.Hooks.afterMessage(ctx, c, roleAssistant, text(resp.Blocks))
			return resp, nil
		}
		broken := errors.Is(err, model.ErrIncomplete) || errors.Is(err, model.ErrMalformed)
		switch {
		case ctx.Err() != nil:
			return model.Response{}, context.Cause(ctx)
		case !broken || !say.any || try > a.opts.Retries: // where nothing came, the model has tried again itself
			return model.Response{}, err
		}
		if err := c.notice(ctx, fmt.Sprintf("The answer broke off (%v). Asking again, %d of %d.", err, try, a.opts.Retries)); err != nil {
			return model.Response{}, err
		}
		ask.System = system + "\n\nNote: your last answer broke off (" + err.Error() + ") and was discarded. Keep answers and single tool calls short."
	}
}

func text(blocks []model.Block) string {
	var all []string
	for _, b := range blocks {
		if b.Type == model.Text {
			all = append(all, b.Text)
		}
	}
	return strings.Join(all, "\n\n")
}

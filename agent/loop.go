package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// converse lets the model answer, runs the tools that it calls, and goes on so
// until it calls none.
func (a *Agent) converse(ctx context.Context, c *Context, ask model.Request) error {
	for range a.opts.MaxSteps {
		resp, err := a.answer(ctx, c, ask)
		if err != nil {
			return err
		}
		var calls []model.Block
		for _, b := range resp.Blocks {
			if b.Type == model.ToolCall {
				calls = append(calls, b)
			}
		}
		switch {
		case len(calls) > 0:
		case resp.Stop == model.StopRefusal:
			return errors.New("the model refused to answer")
		case resp.Stop == model.StopLength:
			return c.notice(ctx, "The answer reached its limit of tokens and ends early.")
		default:
			return nil
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

// answer has the model say one message, which is streamed into the thread. One
// that breaks off is noted there and asked for again, a bounded number of
// times; what came of it stays.
func (a *Agent) answer(ctx context.Context, c *Context, ask model.Request) (model.Response, error) {
	system := ask.System
	for try := 1; ; try++ {
		if err := c.wanted(ctx); err != nil {
			return model.Response{}, err
		}
		came := false
		resp, err := a.opts.Models[c.model].Generate(ctx, ask, func(d model.Delta) error {
			came = true
			switch {
			case d.Text != "":
				return c.handle.Text(ctx, d.Text)
			case d.Reasoning != "":
				return c.handle.Reasoning(ctx, d.Reasoning)
			}
			return nil // a call comes whole, with the response
		})
		if usageErr := c.addUsage(ctx, resp.Usage); usageErr != nil && err == nil {
			err = usageErr
		}
		broken := errors.Is(err, model.ErrIncomplete) || errors.Is(err, model.ErrMalformed)
		switch {
		case err == nil:
			return resp, a.opts.Hooks.message(ctx, c, thread.Assistant, said(resp.Blocks))
		case ctx.Err() != nil:
			return model.Response{}, context.Cause(ctx)
		case !broken || !came || try > a.opts.Retries: // where nothing came, the model has tried again itself
			return model.Response{}, err
		}
		if err := c.notice(ctx, fmt.Sprintf("The answer broke off (%v). Asking again, %d of %d.", err, try, a.opts.Retries)); err != nil {
			return model.Response{}, err
		}
		ask.System = system + "\n\nNote: your last answer broke off (" + err.Error() + ") and was discarded. Keep answers and single tool calls short."
	}
}

func said(blocks []model.Block) string {
	var all []string
	for _, b := range blocks {
		if b.Type == model.Text {
			all = append(all, b.Text)
		}
	}
	return strings.Join(all, "\n\n")
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

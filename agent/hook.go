package agent

import (
	"context"
	"fmt"
)

// Hooks are called around runs, tools and messages. Each may be nil. They run
// on the agent's goroutines, those of tools side by side where tools do, and
// the run waits for them. An error of a Before hook refuses what would follow;
// its text is what the user, or for a tool the model, is told.
type Hooks struct {
	// BeforeRun may change the request. Refused: the run fails.
	BeforeRun func(ctx context.Context, c *Context, req *Request) error
	// AfterRun gets the run's error, nil for success. ctx may be over.
	AfterRun func(ctx context.Context, c *Context, err error)
	// BeforeTool comes before the decision and the effect. Refused: the tool
	// does not run, and the model is told why.
	BeforeTool func(ctx context.Context, c *Context, call *Call) error
	// AfterTool may change what the model and the thread get.
	AfterTool func(ctx context.Context, c *Context, call *Call, out *Output, err error)
	// BeforeMessage comes before each message to the model ("user", with the
	// prompt) and before each of its answers counts ("assistant"). Refused: the
	// run fails.
	BeforeMessage func(ctx context.Context, c *Context, role, text string) error
	// AfterMessage comes when the message is part of the thread.
	AfterMessage func(ctx context.Context, c *Context, role, text string)
}

// setDefaults fills in hooks that do nothing.
func (h *Hooks) setDefaults() {
	if h.BeforeRun == nil {
		h.BeforeRun = func(context.Context, *Context, *Request) error { return nil }
	}
	if h.AfterRun == nil {
		h.AfterRun = func(context.Context, *Context, error) {}
	}
	if h.BeforeTool == nil {
		h.BeforeTool = func(context.Context, *Context, *Call) error { return nil }
	}
	if h.AfterTool == nil {
		h.AfterTool = func(context.Context, *Context, *Call, *Output, error) {}
	}
	if h.BeforeMessage == nil {
		h.BeforeMessage = func(context.Context, *Context, string, string) error { return nil }
	}
	if h.AfterMessage == nil {
		h.AfterMessage = func(context.Context, *Context, string, string) {}
	}
}

// message is a message with the hooks around it.
func (h *Hooks) message(ctx context.Context, c *Context, role, text string) error {
	if err := h.BeforeMessage(ctx, c, role, text); err != nil {
		return refused(err)
	}
	h.AfterMessage(ctx, c, role, text)
	return nil
}

func refused(err error) error { return fmt.Errorf("refused: %w", err) }

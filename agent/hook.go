package agent

import "context"

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

func (h *Hooks) beforeRun(ctx context.Context, c *Context, req *Request) error {
	if h.BeforeRun == nil {
		return nil
	}
	return h.BeforeRun(ctx, c, req)
}

func (h *Hooks) afterRun(ctx context.Context, c *Context, err error) {
	if h.AfterRun != nil {
		h.AfterRun(ctx, c, err)
	}
}

func (h *Hooks) beforeTool(ctx context.Context, c *Context, call *Call) error {
	if h.BeforeTool == nil {
		return nil
	}
	return h.BeforeTool(ctx, c, call)
}

func (h *Hooks) afterTool(ctx context.Context, c *Context, call *Call, out *Output, err error) {
	if h.AfterTool != nil {
		h.AfterTool(ctx, c, call, out, err)
	}
}

func (h *Hooks) beforeMessage(ctx context.Context, c *Context, role, text string) error {
	if h.BeforeMessage == nil {
		return nil
	}
	return h.BeforeMessage(ctx, c, role, text)
}

func (h *Hooks) afterMessage(ctx context.Context, c *Context, role, text string) {
	if h.AfterMessage != nil {
		h.AfterMessage(ctx, c, role, text)
	}
}

package agent

import (
	"context"
	"encoding/json"

	"github.com/thole-dev/thole/agent/model"
)

// Tool is something that a model can call. Make one with [NewTool].
type Tool struct {
	model.Tool
	// ReadOnly tools have no effect: calls of them that follow each other run
	// side by side. All others run one at a time, in the order the model asked.
	ReadOnly bool

	run func(ctx context.Context, c *Context, call *Call) (Output, error)
}

// Call is one call of a tool by a model.
type Call struct {
	ID    string          // of its block in the thread, and of the operation in its events
	Name  string          // the tool's
	Input json.RawMessage // as the model wrote it
}

// Output is what a tool call came to.
type Output struct {
	Text string         // for the model, and the block's result
	Meta map[string]any // facts for screens, in the block's meta: file_path, exit_code, …
}

// ToolOptions change [NewTool]. The zero value is the default.
type ToolOptions struct {
	ReadOnly bool // see [Tool]
}

// NewTool returns a tool whose input is a JSON object with the fields of In; see
// [model.NewTool] for its schema. An input that does not fit is told to the model
// and run is not called.
//
// An error of run is told to the model as the call's result, and the run goes
// on; only the end of ctx ends it. A tool must stop when ctx does, and must
// not begin an effect after it.
func NewTool[In any](name, description string, run func(ctx context.Context, c *Context, call *Call, in In) (Output, error), o *ToolOptions) Tool {
	declared, decode := model.NewTool[In](name, description)
	t := Tool{Tool: declared, ReadOnly: o != nil && o.ReadOnly}
	t.run = func(ctx context.Context, c *Context, call *Call) (Output, error) {
		in, err := decode(call.Input)
		if err != nil {
			return Output{}, err
		}
		return run(ctx, c, call, in)
	}
	return t
}

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/todo"
)

// maxInput bounds the input of a tool call, which must fit into an event.
const maxInput = 400 << 10

// callAll runs the tool calls of one message and returns their results in the
// same order. Calls of read-only tools that follow each other run side by side;
// all others run alone. Only the end of the run is an error: what goes wrong in
// a tool is a result.
func (a *Agent) callAll(ctx context.Context, c *Context, calls []model.Block) ([]model.Block, error) {
	results := make([]model.Block, len(calls))
	for i := 0; i < len(calls); {
		n := i + 1
		if a.readOnly(calls[i].Name) {
			for n < len(calls) && a.readOnly(calls[n].Name) {
				n++
			}
		}
		errs := make([]error, n)
		var begun []*running
		for j := i; j < n; j++ { // in order, so that the thread shows them so
			r, err := a.begin(ctx, c, calls[j])
			if err != nil {
				errs[j] = err
				break
			}
			begun = append(begun, r)
		}
		var wg sync.WaitGroup
		for k, r := range begun {
			wg.Go(func() { results[i+k], errs[i+k] = r.finish(ctx) })
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				return nil, err
			}
		}
		i = n
	}
	return results, nil
}

func (a *Agent) readOnly(name string) bool { return a.tools[name] != nil && a.tools[name].ReadOnly }

// running is a tool call whose block is in the thread.
type running struct {
	agent  *Agent
	c      *Context
	call   Call
	id     string // the model's
	refuse error  // why the tool must not run
}

// begin adds the call's block to the thread and emits tool.started. Nothing
// begins once the run is to be cancelled.
func (a *Agent) begin(ctx context.Context, c *Context, b model.Block) (*running, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r := &running{agent: a, c: c, id: b.ID, call: Call{Name: b.Name, Input: b.Input}}
	shown := b.Input
	switch {
	case !json.Valid(b.Input) && len(b.Input) > 0:
		r.refuse = errors.New("the input is not valid JSON")
		shown, _ = json.Marshal(cut(string(b.Input), maxResult)) // a string: cannot fail
	case len(b.Input) > maxInput:
		shown = r.tooLarge()
	}
	op := thole.NewID("op")
	var err error
	r.call.ID, err = c.handle.StartTool(ctx, b.Name, shown, op)
	if errors.Is(err, thole.ErrTooLarge) { // escapes made it longer
		r.call.ID, err = c.handle.StartTool(ctx, b.Name, r.tooLarge(), op)
	}
	return r, err
}

// tooLarge refuses the call and returns what its block shows as its input.
func (r *running) tooLarge() json.RawMessage {
	r.refuse = fmt.Errorf("the input has %d bytes, which is too large; work in smaller pieces", len(r.call.Input))
	shown, _ := json.Marshal(map[string]int{"bytes": len(r.call.Input)}) // two plain values: cannot fail
	return shown
}

// finish runs the tool and adds its result to the block. The result ends with
// the task list. A panic, on whichever goroutine, is one of the run's function.
func (r *running) finish(ctx context.Context) (_ model.Block, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &run.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	out, err := r.run(ctx)
	r.agent.opts.Hooks.afterTool(ctx, r.c, &r.call, &out, err)
	text := cut(out.Text, 2*maxShown)
	switch {
	case err != nil && ctx.Err() != nil:
		text = join(text, fmt.Sprintf("[cancelled: %v]", context.Cause(ctx)))
	case err != nil:
		text = join(text, err.Error())
	}
	todos, todoErr := r.c.Todo(context.WithoutCancel(ctx))
	if todoErr == nil { // a result without the list is better than none
		text = todo.AppendTo(text, todos)
	}
	if err := r.c.finishTool(ctx, r.call.ID, text, out.Meta, err != nil); err != nil {
		return model.Block{}, err
	}
	if ctx.Err() != nil {
		return model.Block{}, context.Cause(ctx)
	}
	return model.Block{Type: model.ToolResult, ID: r.id, Name: r.call.Name, Text: text, Failed: err != nil}, nil
}

func (r *running) run(ctx context.Context) (Output, error) {
	tool := r.agent.tools[r.call.Name]
	switch {
	case tool == nil:
		return Output{}, fmt.Errorf("there is no tool %q; there are %s", r.call.Name, r.agent.toolNames())
	case r.refuse != nil:
		return Output{}, r.refuse
	}
	if err := r.agent.opts.Hooks.beforeTool(ctx, r.c, &r.call); err != nil {
		return Output{}, fmt.Errorf("refused: %w", err)
	}
	return tool.run(ctx, r.c, &r.call)
}

func join(text, more string) string {
	if text == "" {
		return more
	}
	return text + "\n" + more
}

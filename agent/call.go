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
	"github.com/thole-dev/thole/internal/clip"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
	"github.com/thole-dev/thole/state/todo"
)

// Bounds of what a tool call says, in bytes; an event holds 512 KiB.
const (
	maxInput = 400 << 10 // of its input, and of its result as JSON
	maxShown = 100 << 10 // of what a tool tells the model at once
	maxBrief = 2 << 10   // of what is kept besides, for people
)

// callAll runs the tool calls of one message and returns their results in the
// same order. Calls of read-only tools that follow each other run side by side;
// all others run alone. Only the end of the run is an error: what goes wrong in
// a tool is a result.
func (a *Agent) callAll(ctx context.Context, c *Context, calls []model.Block) ([]model.Block, error) {
	results, errs := make([]model.Block, len(calls)), make([]error, len(calls))
	for next := 0; next < len(calls); {
		var wg sync.WaitGroup
		for first := next; next < len(calls) && (next == first || a.readOnly(calls[first]) && a.readOnly(calls[next])); next++ {
			i := next
			r, err := a.begin(ctx, c, calls[i]) // in order, so that the thread shows them so
			if err != nil {
				errs[i] = err
				break
			}
			wg.Go(func() { results[i], errs[i] = r.finish(ctx) })
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

func (a *Agent) readOnly(b model.Block) bool {
	tool := a.tools[b.Name]
	return tool != nil && tool.ReadOnly
}

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
	switch stored, err := json.Marshal(b.Input); { // as it is stored: escapes make it longer
	case err != nil && len(b.Input) > 0:
		r.refuse = errors.New("the input is not valid JSON")
		shown, _ = json.Marshal(clip.Text(string(b.Input), maxBrief)) // a string: cannot fail
	case len(stored) > maxInput:
		r.refuse = fmt.Errorf("the input has %d bytes, which is too large; work in smaller pieces", len(b.Input))
		shown = fmt.Appendf(nil, `{"bytes":%d}`, len(b.Input))
	}
	var err error
	r.call.ID, err = c.handle.StartTool(ctx, b.Name, shown, thole.NewID("op"))
	return r, err
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
	r.agent.opts.Hooks.AfterTool(ctx, r.c, &r.call, &out, err)
	text := clip.Text(out.Text, 2*maxShown)
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
	if err := r.record(ctx, text, out.Meta, err != nil); err != nil {
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
		return Output{}, fmt.Errorf("there is no tool %q; there are %s", r.call.Name, names(r.agent.tools))
	case r.refuse != nil:
		return Output{}, r.refuse
	}
	if err := r.agent.opts.Hooks.BeforeTool(ctx, r.c, &r.call); err != nil {
		return Output{}, refused(err)
	}
	return tool.run(ctx, r.c, &r.call)
}

// record ends the call's block, also when the run has ended meanwhile.
func (r *running) record(ctx context.Context, text string, meta map[string]any, failed bool) error {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	result, err := json.Marshal(text)
	for err == nil && len(result) > maxInput { // escapes make it longer than text
		text = clip.Text(text, len(text)/2)
		result, err = json.Marshal(text)
	}
	raw := make(map[string]json.RawMessage, len(meta))
	for k, v := range meta {
		if err == nil {
			raw[k], err = json.Marshal(v)
		}
	}
	if err != nil {
		return err
	}
	return r.c.handle.FinishTool(ctx, r.call.ID, thread.ToolResult{Result: result, Meta: raw, Failed: failed})
}

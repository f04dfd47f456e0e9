package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/thread"
)

type bashInput struct {
	Command        string `json:"command" jsonschema:"minLength=1,description=A shell command\\, run in the project's directory without input"`
	Description    string `json:"description,omitempty" jsonschema:"description=What it is for\\, in a few words"`
	TimeoutSeconds int    `json:"timeout_seconds,omitempty" jsonschema:"minimum=1,maximum=600,default=120"`
	Idempotent     bool   `json:"idempotent,omitempty" jsonschema:"description=True if to run it twice is the same as to run it once; it may then be run again after a crash"`
}

// BashTool runs a shell command in the sandbox. All its processes are gone when
// it returns, and when the run is cancelled.
func BashTool() Tool {
	return NewTool("Bash", "Runs a shell command in the project's directory and returns its output. Processes that it leaves behind are ended with it.", bash, nil)
}

// OutputBroadcast is the data of the broadcast tool.output: what a command has
// printed since the last one.
type OutputBroadcast = thread.ToolOutput

func bash(ctx context.Context, c *Context, call *Call, in bashInput) (Output, error) {
	if in.TimeoutSeconds == 0 {
		in.TimeoutSeconds = 120
	}
	if err := c.lookAround(ctx, ""); err != nil { // so that what follows is the command's
		return Output{}, err
	}
	e, err := c.plan(ctx, call, action{Command: in.Command, rationale: in.Description, idempotent: in.Idempotent})
	if err != nil {
		return Output{}, err
	}
	res, err := c.Sandbox.Exec(ctx, in.Command, &sandbox.ExecOptions{
		Timeout:   time.Duration(in.TimeoutSeconds) * time.Second,
		MaxOutput: maxShown,
		Until:     c.handle.LeaseEnds, // whoever takes the run over then is alone
		Output: func(text []byte) {
			// Live only: what is lost here is in the result.
			_ = c.Space.Broadcast(thread.Key(c.Thread), "tool.output", OutputBroadcast{Block: call.ID, Text: string(text)})
		},
	})
	out := Output{Text: res.Output, Meta: map[string]any{
		"command": cut(in.Command, maxResult), "exit_code": res.ExitCode, "output": cut(res.Output, maxResult),
	}}
	switch {
	case ctx.Err() != nil && err != nil:
		out.Text += fmt.Sprintf("\n[stopped: %v; all its processes are gone]", context.Cause(ctx))
	case errors.Is(err, sandbox.ErrTimeout), errors.Is(err, sandbox.ErrLapsed):
		out.Text += fmt.Sprintf("\n[stopped: %v; all its processes are gone]", err)
	case err != nil:
		out.Text += fmt.Sprintf("\n[%v]", err)
	case res.Signal != "":
		err = fmt.Errorf("the command was ended by the signal %s", res.Signal)
	case res.ExitCode != 0:
		err = fmt.Errorf("exit status %d", res.ExitCode)
	}
	if settleErr := e.commanded(ctx, res, err); settleErr != nil {
		return out, settleErr
	}
	end, cancel := afterwards(ctx)
	defer cancel()
	if lookErr := c.lookAround(end, "tool:Bash"); lookErr != nil {
		return out, lookErr
	}
	if err == nil && out.Text == "" {
		out.Text = "[no output, exit status 0]"
	}
	return out, err
}

// commanded records what came of a command: one that ended by itself is done or
// failed; of one that was ended midway nobody knows what it had done.
func (e *effect) commanded(ctx context.Context, res sandbox.Result, failure error) error {
	r := outcome{ExitCode: &res.ExitCode, Output: cut(res.Output, maxResult)}
	if failure != nil {
		r.Error = failure.Error()
	}
	switch {
	case !res.Began:
		return e.never(ctx, failure)
	case failure == nil:
		return e.settle(ctx, decision.Done, r)
	case res.ExitCode >= 0 && res.Signal == "" && !res.Stopped:
		return e.settle(ctx, decision.Failed, r)
	}
	return e.settle(ctx, decision.Unknown, r)
}

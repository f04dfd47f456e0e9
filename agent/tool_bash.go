package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/internal/clip"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/thread"
)

type bashInput struct {
	Command        string `json:"command" jsonschema:"minLength=1,description=A shell command\\, run in the project's directory without input"`
	Description    string `json:"description,omitempty" jsonschema:"description=What it is for\\, in a few words"`
	TimeoutSeconds int    `json:"timeout_seconds,omitempty" jsonschema:"minimum=1,maximum=600,default=120"`
	Idempotent     bool   `json:"idempotent,omitempty" jsonschema:"description=True if to run it twice is the same as to run it once; it may then be run again after a crash"`
}

// OutputBroadcast is the data of the broadcast tool.output: what a command has
// printed since the last one.
type OutputBroadcast = thread.ToolOutput

// bash runs a shell command in the sandbox. All its processes are gone when it
// returns, and when the run is cancelled.
func bash(ctx context.Context, c *Context, call *Call, in bashInput) (Output, error) {
	if err := c.edits.LookAround(ctx, c.Run+"/look", ""); err != nil { // so that what follows is the command's
		return Output{}, err
	}
	var out Output
	err := c.act(ctx, call, action{Command: in.Command, rationale: in.Description, idempotent: in.Idempotent}, func(string) (outcome, error) {
		res, err := c.Sandbox.Exec(ctx, in.Command, &sandbox.ExecOptions{
			Timeout:   time.Duration(cmp.Or(in.TimeoutSeconds, 120)) * time.Second,
			MaxOutput: maxShown,
			Until:     c.handle.LeaseEnds, // whoever takes the run over then is alone
			Output: func(text []byte) {
				// Live only: what is lost here is in the result.
				_ = c.Space.Broadcast(thread.Key(c.Thread), "tool.output", OutputBroadcast{Block: call.ID, Text: string(text)})
			},
		})
		shown := clip.Text(res.Output, maxBrief)
		out = Output{Text: res.Output, Meta: map[string]any{"command": clip.Text(in.Command, maxBrief), "exit_code": res.ExitCode, "output": shown}}
		switch failure := res.Failure(); {
		case res.Stopped:
			out.Text += fmt.Sprintf("\n[stopped: %v; all its processes are gone]", err)
		case err != nil:
			out.Text += fmt.Sprintf("\n[%v]", err)
		case failure != nil:
			err = failure
		case out.Text == "":
			out.Text = "[no output, exit status 0]"
		}
		o := outcome{ExitCode: &res.ExitCode, Output: shown}
		switch {
		case !res.Began:
			o = never(err)
		case res.Stopped || res.ExitCode < 0: // ended midway: nobody knows what it had done
			o.status = decision.Unknown
		}
		return o, err
	})
	if out.Meta != nil { // it ran
		end, cancel := afterwards(ctx)
		defer cancel()
		err = errors.Join(err, c.edits.LookAround(end, c.Run+"/look", "tool:Bash"))
	}
	return out, err
}

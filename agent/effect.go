package agent

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/thole-dev/thole/internal/clip"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/run"
)

// action is what a tool is about to do to the world; it is the input of its
// decision, from which the effect can be verified after a crash.
type action struct {
	Tool    string `json:"tool"`
	Block   string `json:"block"`
	Path    string `json:"file_path,omitempty"`
	Root    string `json:"directory_id,omitempty"` // with Path: the Sandbox.ID of the directory that the file is in
	Before  string `json:"before_hash,omitempty"`  // "": there was no file
	After   string `json:"after_hash,omitempty"`
	Command string `json:"command,omitempty"`
	Todos   string `json:"todo_thread,omitempty"` // the thread whose task list is changed
	Task    string `json:"task,omitempty"`        // the prompt of a sub-agent, cut

	rationale  string
	idempotent bool
}

func (a *action) String() string {
	switch {
	case a.Path != "":
		return a.Tool + " " + a.Path
	case a.Todos != "":
		return a.Tool + ": change the task list"
	}
	return a.Tool + ": " + clip.Text(a.Command+a.Task, 200)
}

// outcome is what a decision of the agent says about its outcome:
//
//	done     it had its effect
//	failed   it ran, and failed; with Again it never began
//	unknown  it was stopped midway, or nobody can tell
//	planned  it is left open: another worker settles it
type outcome struct {
	status decision.Status // "": done, or failed with an error

	Error    string `json:"error,omitempty"`
	Again    bool   `json:"again,omitempty"` // of failed: it never began, or is idempotent, so it may be done again
	Verified string `json:"verified,omitempty"`
	Hash     string `json:"hash,omitempty"`
	Merged   bool   `json:"merged,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	Output   string `json:"output,omitempty"` // cut
}

// never is the outcome of an act that did not begin, because of reason.
func never(reason error) outcome {
	return outcome{status: decision.Failed, Error: reason.Error(), Again: true}
}

// act is the one way in which a tool does something to the world: its decision is
// durable before do begins, which it only does while the run is wanted, and the
// outcome is recorded after. do gets the id of the decision; an error of it counts
// as failed, unless the outcome says otherwise, and is returned.
func (c *Context) act(ctx context.Context, call *Call, act action, do func(id string) (outcome, error)) error {
	if err := c.wanted(ctx); err != nil {
		return err
	}
	act.Tool, act.Block = call.Name, call.ID
	if act.Path != "" {
		act.Root = c.Sandbox.ID()
	}
	input, err := json.Marshal(act)
	if err != nil {
		return err
	}
	dec, err := c.Decisions.Plan(ctx, decision.Plan{
		Action: act.String(), Rationale: act.rationale, Input: input, Refs: []string{c.Run, call.ID},
		Idempotent: act.idempotent, Run: c.Run, Thread: c.Thread,
	})
	if err != nil {
		return err
	}
	if err := c.wanted(ctx); err != nil {
		return errors.Join(err, c.settle(ctx, dec.ID, never(errors.New("cancelled before it began"))))
	}
	o, err := do(dec.ID)
	if err != nil && o.Error == "" {
		o.Error = err.Error()
	}
	switch {
	case o.status == "" && err == nil:
		o.status = decision.Done
	case o.status == "":
		o.status = decision.Failed
	}
	return errors.Join(err, c.settle(ctx, dec.ID, o))
}

// settle records what came of an act. It works after a cancel too, and when the run
// was lost meanwhile: what happened is recorded all the same. The decision's own
// state guards its outcome.
func (c *Context) settle(ctx context.Context, id string, o outcome) error {
	if o.status == decision.Planned {
		return nil
	}
	ctx, cancel := afterwards(ctx)
	defer cancel()
	_, err := decision.In(c.Space.WithoutFences()).Resolve(ctx, id, o.status, o)
	return err
}

// wanted reports, as *run.CancelledError, that the run is to end. It looks at
// the record: the news may not have reached ctx yet, and nothing may begin
// after a cancel.
func (c *Context) wanted(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r, err := c.handle.Get(ctx)
	if err == nil && r.Cancel != nil {
		err = &run.CancelledError{Run: r.ID, Cause: r.Cancel.Cause}
	}
	return err
}

// lastWords is how long a run that was cancelled may take to record what
// happened.
const lastWords = 10 * time.Second

// afterwards returns a context for recording what has happened already, even
// when ctx has ended.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), lastWords)
}

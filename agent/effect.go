package agent

import (
	"context"
	"encoding/json"
	"errors"

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
	return a.Tool + ": " + cut(a.Command+a.Task, 200)
}

// effect is an act between its decision and its outcome.
type effect struct {
	c  *Context
	id string
}

// plan makes the decision of an act durable. Only then may the act begin, and
// only if ctx has not ended.
func (c *Context) plan(ctx context.Context, call *Call, act action) (*effect, error) {
	if err := c.wanted(ctx); err != nil {
		return nil, err
	}
	act.Tool, act.Block = call.Name, call.ID
	if act.Path != "" {
		act.Root = c.Sandbox.ID()
	}
	input, err := json.Marshal(act)
	if err != nil {
		return nil, err
	}
	dec, err := c.Decisions.Plan(ctx, decision.Plan{
		Action: act.String(), Rationale: act.rationale, Input: input, Refs: []string{c.Run, call.ID},
		Idempotent: act.idempotent, Run: c.Run, Thread: c.Thread,
	})
	if err != nil {
		return nil, err
	}
	e := &effect{c: c, id: dec.ID}
	if err := c.wanted(ctx); err != nil {
		return nil, errors.Join(err, e.never(ctx, errors.New("cancelled before it began")))
	}
	return e, nil
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

// outcome is what a decision of the agent says about its outcome.
type outcome struct {
	Error    string `json:"error,omitempty"`
	Again    bool   `json:"again,omitempty"` // of failed: it never began, or is idempotent, so it may be done again
	Verified string `json:"verified,omitempty"`
	Hash     string `json:"hash,omitempty"`
	Merged   bool   `json:"merged,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	Output   string `json:"output,omitempty"` // cut
}

// settle records what came of the act:
//
//	done     it had its effect
//	failed   it ran, and failed; with Again it never began
//	unknown  it was stopped midway, or nobody can tell
//
// It works after a cancel too, and when the run was lost meanwhile: what happened
// is recorded all the same. The decision's own state guards its outcome.
func (e *effect) settle(ctx context.Context, status decision.Status, o outcome) error {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	_, err := decision.In(e.c.Space.WithoutFences()).Resolve(ctx, e.id, status, o)
	return err
}

// never records that the act did not begin, because of reason.
func (e *effect) never(ctx context.Context, reason error) error {
	return e.settle(ctx, decision.Failed, outcome{Error: reason.Error(), Again: true})
}

// ended records the outcome of an act that ended by itself, with failure or
// without.
func (e *effect) ended(ctx context.Context, failure error) error {
	if failure != nil {
		return e.settle(ctx, decision.Failed, outcome{Error: failure.Error()})
	}
	return e.settle(ctx, decision.Done, outcome{})
}

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/edit"
	"github.com/thole-dev/thole/agent/history"
	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// Run asks the agent in a thread of sp and returns the run when it has ended;
// with the policy enqueue it waits for the runs before it. sp's actor is the
// user who asks. When ctx ends, the run is cancelled.
//
// Errors: ErrInvalid; those of run.Runs.Do. A run that failed or was cancelled
// is returned together with its error; its thread says why.
func (a *Agent) Run(ctx context.Context, sp *thole.Space, threadID string, req Request) (*run.Run, error) {
	q, err := req.run(a.opts.Name)
	if err != nil {
		return nil, err
	}
	return a.do(ctx, sp, threadID, q)
}

// Resume goes on where a run stopped that crashed, failed or was cancelled. What
// of its effects is known, and what is not, is found out first: see
// [Agent.Reconcile]. It returns the new run when that has ended. Errors: those of
// run.Runs.Resume and Run.
func (a *Agent) Resume(ctx context.Context, sp *thole.Space, runID string) (*run.Run, error) {
	old, err := run.In(sp, a.opts.Runs).Get(ctx, runID)
	if err != nil {
		return nil, err
	}
	if !old.Ended() || old.Status == run.Succeeded {
		return nil, fmt.Errorf("resume run %s: %w: it is %s", runID, thole.ErrConflict, old.Status)
	}
	if _, err := a.route(&Request{Model: old.Model}); err != nil { // before a run is begun that only its like could resume
		return nil, fmt.Errorf("resume run %s: %w", runID, err)
	}
	return a.do(ctx, sp, old.Thread, run.Request{Agent: a.opts.Name, Policy: run.Reject, ResumedFrom: runID})
}

func (a *Agent) do(ctx context.Context, sp *thole.Space, threadID string, q run.Request) (*run.Run, error) {
	ctx = thole.Call(ctx, "agent.run", threadID)
	return run.In(sp, a.opts.Runs).Run(ctx, threadID, q, a.Work)
}

// ServeOptions change [Agent.Serve]. The zero value is the default.
type ServeOptions struct {
	Workers int  // runs at once, those that wait for a signal included; default 8
	Unnamed bool // also take runs that name no agent
}

// Serve works on the runs of sp that wait for the agent, until ctx ends; those
// at work are then cancelled. What runs of the agent left open that crashed, before
// or meanwhile, it settles, see [Agent.Reconcile]. It returns ctx's cause, or
// ErrClosed when the store was closed or the runs' group is drained.
func (a *Agent) Serve(ctx context.Context, sp *thole.Space, o *ServeOptions) error {
	var opts ServeOptions
	if o != nil {
		opts = *o
	}
	agents := []string{a.opts.Name}
	if opts.Unnamed {
		agents = append(agents, "")
	}
	sp = sp.As("agent:" + a.opts.Name)
	serving, stop := context.WithCancel(ctx)
	var settling sync.WaitGroup
	defer settling.Wait()
	defer stop()
	settling.Go(func() { a.settleCrashed(serving, sp, agents) })
	return run.In(sp, a.opts.Runs).Work(ctx, &run.WorkOptions{Agents: agents, Name: a.opts.Name, Workers: opts.Workers}, a.Work)
}

// Work does the work of a run that h holds: for run.Handle.Do, by whoever
// claims runs. A run that goes on from another first settles what that one left
// open, see [Agent.Reconcile].
func (a *Agent) Work(ctx context.Context, h *run.Handle) error {
	c := &Context{
		Store: h.Space().Store(), Sandbox: a.opts.Sandbox, GitRepo: a.opts.GitRepo, Template: a.opts.Template,
		TodoThread: h.Thread(), agent: a,
	}
	c.bind(h, &edit.Touched{})
	return a.carryOut(ctx, c)
}

// carryOut answers the request that c's turn is about.
func (a *Agent) carryOut(ctx context.Context, c *Context) (err error) {
	r, err := c.handle.Get(ctx)
	if err != nil {
		return err
	}
	t, err := c.Threads.Get(ctx, c.Thread)
	if err != nil {
		return err
	}
	o, err := optionsOf(r)
	if err != nil {
		return err
	}
	req, before, since, err := a.recall(ctx, c, r)
	if err != nil {
		return err
	}
	if req.empty() {
		return nil // another run has answered what it was started for
	}
	req.RunOptions, req.Model = o, r.Model
	if o.ChatHistory != nil {
		before = o.ChatHistory
	}
	for i := range req.Attachments {
		if err := req.Attachments[i].read(ctx, c.Space); err != nil {
			return err
		}
	}
	owner, _ := strings.CutPrefix(t.Owner, "user:")
	c.UserID = cmp.Or(o.UserID, c.UserID, owner) // a sub-agent's are its parent's
	c.UserEmail, c.DesktopClient = cmp.Or(o.UserEmail, c.UserEmail), cmp.Or(o.DesktopClient, c.DesktopClient)
	c.Attachments = req.Attachments

	hooks := &a.opts.Hooks
	defer func() { hooks.AfterRun(ctx, c, err) }()
	if err := hooks.BeforeRun(ctx, c, &req); err != nil {
		return refused(err)
	}
	if err := hooks.message(ctx, c, thread.User, req.Prompt); err != nil {
		return err
	}
	if c.model, err = a.route(&req); err != nil {
		return err
	}
	if err := c.handle.SetModel(ctx, c.model); err != nil {
		return err
	}
	ask := a.prompt(c, before, &req)
	ask.Messages = append(ask.Messages, since...)
	err = a.converse(ctx, c, ask)

	// What was written was written, however the run ended.
	end, cancel := afterwards(ctx)
	defer cancel()
	return errors.Join(err, c.MarkFileOperationsDone(end))
}

// recall reads from the thread what is asked, what was said before, and, for a run that goes
// on from others, what came of it so far: see [history.Recall]. The request is empty if
// nothing was posted since a run that succeeded or is not over, or if there was no such run.
func (a *Agent) recall(ctx context.Context, c *Context, r *run.Run) (req Request, before []history.Message, since []model.Message, err error) {
	mine, fates, err := a.settled(ctx, c, r)
	if err != nil {
		return req, nil, nil, err
	}
	found, err := history.Recall(ctx, c.Space, c.Thread, mine, a.opts.History)
	if err != nil {
		return req, nil, nil, err
	}
	req = asked(found.Request)
	req.Prompt = strings.TrimPrefix(found.Older.Content+"\n\n"+req.Prompt, "\n\n")
	switch other := found.Other; {
	case len(found.Request) > 0:
	case other != nil && other.Ended() && other.Status != run.Succeeded:
		return req, nil, nil, fmt.Errorf("%w: run %s was asked what was posted and %s: resume that", thole.ErrInvalid, other.ID, other.Status)
	case other == nil && r.ResumedFrom != "":
		return req, nil, nil, fmt.Errorf("%w: turn %s asks for nothing", thole.ErrInvalid, r.Turn)
	}
	return req, history.Of(found.Past), replay(found.Response, fates), nil
}

// settled settles what the runs that r goes on from left open. It returns r's turn and
// theirs, and what came of their effects.
func (a *Agent) settled(ctx context.Context, c *Context, r *run.Run) (turns []string, fates map[string]fate, _ error) {
	turns, fates = []string{r.Turn}, map[string]fate{}
	for id := r.ResumedFrom; id != ""; {
		old, err := c.Runs.Get(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		found, err := a.reconcile(ctx, c.Space, old)
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(fates, found)
		if old.InHistory() {
			turns = append(turns, old.Turn)
		}
		id = old.ResumedFrom
	}
	return turns, fates, nil
}

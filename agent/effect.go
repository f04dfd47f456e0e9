package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/run"
)

// action is what a tool is about to do to the world; it is the input of its
// decision, from which the effect can be verified after a crash.
type action struct {
	Tool    string `json:"tool"`
	Block   string `json:"block"`
	Path    string `json:"file_path,omitempty"`
	Before  string `json:"before_hash,omitempty"` // "": there was no file
	After   string `json:"after_hash,omitempty"`
	Command string `json:"command,omitempty"`

	rationale  string
	idempotent bool
}

func (a *action) String() string {
	if a.Path != "" {
		return a.Tool + " " + a.Path
	}
	return a.Tool + ": " + cut(a.Command, 200)
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
		return nil, errors.Join(err, e.settle(ctx, errors.New("cancelled before it began"), nil))
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

// settle records what came of the act: failed with failure, or done. It works
// after a cancel too.
func (e *effect) settle(ctx context.Context, failure error, result map[string]any) error {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	outcome := decision.Done
	if failure != nil {
		outcome = decision.Failed
		if result == nil {
			result = map[string]any{}
		}
		result["error"] = failure.Error()
	}
	_, err := e.c.Decisions.Resolve(ctx, e.id, outcome, result)
	return err
}

// Reconcile settles what a run left open that has ended, by looking at the
// files: a change that is in its file was done; one whose file is as before was
// not, and may be made again; of all else the outcome is unknown until a person
// or an agent finds out. It returns what stays unknown. A run that is resumed
// does this first.
func (a *Agent) Reconcile(ctx context.Context, sp *thole.Space, runID string) ([]decision.Decision, error) {
	old, err := run.In(sp, a.opts.Runs).Get(ctx, runID)
	if err != nil {
		return nil, err
	}
	if !old.Ended() {
		return nil, fmt.Errorf("reconcile run %s: %w: it is %s", runID, thole.ErrConflict, old.Status)
	}
	if _, err := a.reconcile(ctx, sp, old); err != nil {
		return nil, err
	}
	var open []decision.Decision
	for list := (decision.ListOptions{Incomplete: true, Run: runID}); ; {
		page, err := decision.In(sp).List(ctx, &list)
		if err != nil {
			return nil, err
		}
		open = append(open, page.Decisions...)
		if list.After = page.Next; page.Next == "" {
			return open, nil
		}
	}
}

// settle reconciles what the runs of the named agents left open that were cut
// short: those that were when it begins, and each that is until ctx ends.
func (a *Agent) settle(ctx context.Context, sp *thole.Space, agents []string) {
	for ctx.Err() == nil {
		if a.settleOnce(ctx, sp, agents) != nil {
			select { // the store has a problem: do not run hot
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// settleOnce is settle until the watch fails or is trimmed.
func (a *Agent) settleOnce(ctx context.Context, sp *thole.Space, agents []string) error {
	w, err := sp.Watch(ctx, &thole.WatchOptions{Types: []string{"run.finished"}, Durable: true})
	if err != nil {
		return err
	}
	defer w.Close()
	var left []string
	for list := (decision.ListOptions{Incomplete: true}); ; {
		page, err := decision.In(sp).List(ctx, &list)
		if err != nil {
			return err
		}
		for _, d := range page.Decisions {
			if d.Status == decision.Planned && d.Run != "" && !slices.Contains(left, d.Run) {
				left = append(left, d.Run)
			}
		}
		if list.After = page.Next; page.Next == "" {
			break
		}
	}
	for {
		for _, id := range left {
			r, err := run.In(sp, a.opts.Runs).Get(ctx, id)
			if errors.Is(err, thole.ErrNotFound) || err == nil && (!r.Ended() || !slices.Contains(agents, r.Agent)) {
				continue
			}
			if err == nil {
				_, err = a.reconcile(ctx, sp, r)
			}
			if err != nil {
				return err
			}
		}
		left = left[:0]
		ds, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, d := range ds {
			var e run.Event
			if err := d.As(&e); err != nil {
				return err
			}
			if e.Status != run.Succeeded && e.Status != run.Failed { // by a worker that lives, which settles itself
				left = append(left, e.Run)
			}
		}
	}
}

// reconcile is Reconcile; it returns what became of the effects of tool calls,
// by block. What its sub-agents left open is settled too.
func (a *Agent) reconcile(ctx context.Context, sp *thole.Space, old *run.Run) (map[string]fate, error) {
	decisions, runs := decision.In(sp), run.In(sp, a.opts.Runs)
	found, err := decisions.Reconcile(ctx, func(ctx context.Context, d decision.Decision) (decision.Status, any, error) {
		return a.verify(ctx, sp, d)
	}, &decision.ReconcileOptions{
		Select: func(d decision.Decision) bool { return a.under(ctx, runs, d.Run, old.ID) },
	})
	if err != nil {
		return nil, err
	}
	fates := map[string]fate{}
	for _, d := range found.Unknown {
		if d.Run != old.ID { // a sub-agent's: its Task is not simply begun anew
			fates[taskTool] = unknown
		}
	}
	for _, d := range found.Replay {
		// The model makes the call again, so that the thread shows it.
		if _, err := decisions.Resolve(ctx, d.ID, decision.Failed, map[string]any{"error": "interrupted; it is idempotent and may be made again"}); err != nil && !errors.Is(err, thole.ErrConflict) {
			return nil, err
		}
	}
	for list := (decision.ListOptions{Run: old.ID}); ; {
		page, err := decisions.List(ctx, &list)
		if err != nil {
			return nil, err
		}
		for _, d := range page.Decisions {
			var act action
			if json.Unmarshal(d.Input, &act) == nil { // others may decide in the run's name too
				fates[act.Block] = fateOf(d.Status)
			}
		}
		if list.After = page.Next; page.Next == "" {
			return fates, nil
		}
	}
}

// under reports whether the run with the given id is top or a sub-agent's run
// below it, and has ended.
func (a *Agent) under(ctx context.Context, runs *run.Runs, id, top string) bool {
	for range 2 + max(a.opts.MaxDepth, 0) {
		if id == top {
			return true
		}
		r, err := runs.Get(ctx, id)
		if err != nil || !r.Ended() { // not a run, or one that is at work
			return false
		}
		id = r.Parent
	}
	return false
}

func fateOf(s decision.Status) fate {
	switch s {
	case decision.Done:
		return happened
	case decision.Failed:
		return didNot
	}
	return unknown
}

// verify looks whether a change of a file is there.
func (a *Agent) verify(ctx context.Context, sp *thole.Space, d decision.Decision) (decision.Status, any, error) {
	var act action
	if err := json.Unmarshal(d.Input, &act); err != nil || act.Path == "" {
		return decision.Unknown, nil, nil
	}
	_, hash, err := a.opts.Sandbox.ReadFile(act.Path)
	missing := errors.Is(err, thole.ErrNotFound)
	switch {
	case err != nil && !missing:
		return decision.Unknown, nil, err
	case err == nil && hash == act.After:
		files := file.In(sp)
		if known, err := files.Get(ctx, act.Path); err != nil {
			return decision.Unknown, nil, err
		} else if known.Hash != hash { // the crash came before the screens were told
			if _, err := files.Changed(ctx, act.Path, act.Before, act.After, nil); err != nil {
				return decision.Unknown, nil, err
			}
		}
		return decision.Done, map[string]any{"verified": "the file has the new content"}, nil
	case missing && act.Before == "", err == nil && hash == act.Before:
		return decision.Failed, map[string]any{"verified": "the file is as before; the change was not made"}, nil
	}
	return decision.Unknown, map[string]any{"verified": "the file has neither the old nor the new content", "hash": hash}, nil
}

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
	"github.com/thole-dev/thole/state/todo"
)

// reconcile is Reconcile; it returns what became of the effects of tool calls,
// by block. What its sub-agents left open is settled too, and before the tasks
// that they were started for.
func (a *Agent) reconcile(ctx context.Context, sp *thole.Space, old *run.Run) (map[string]fate, error) {
	for _, tasks := range []bool{false, true} {
		if err := a.settleOpen(ctx, sp, old, tasks); err != nil {
			return nil, err
		}
	}
	decisions, fates := decision.In(sp), map[string]fate{}
	for list := (decision.ListOptions{Run: old.ID}); ; {
		page, err := decisions.List(ctx, &list)
		if err != nil {
			return nil, err
		}
		for _, d := range page.Decisions {
			var act action
			if json.Unmarshal(d.Input, &act) != nil || act.Block == "" { // others may decide in the run's name too
				continue
			}
			if f := fateOf(&d); f.known >= fates[act.Block].known { // one call may make several decisions
				fates[act.Block] = f
			}
		}
		if list.After = page.Next; page.Next == "" {
			break
		}
	}
	return fates, a.oldTasks(ctx, sp, old, fates)
}

// settleOpen settles the open decisions of old and the runs below it: those
// about tasks, or all others. One about a file in another directory is left to
// those who work there: a file of the same name here says nothing about it.
func (a *Agent) settleOpen(ctx context.Context, sp *thole.Space, old *run.Run, tasks bool) error {
	decisions, runs := decision.In(sp), run.In(sp, a.opts.Runs)
	found, err := decisions.Reconcile(ctx, func(ctx context.Context, d decision.Decision) (decision.Status, any, error) {
		return a.verify(ctx, sp, d)
	}, &decision.ReconcileOptions{
		Select: func(d decision.Decision) bool {
			var act action
			if json.Unmarshal(d.Input, &act) != nil || act.Root != "" && act.Root != a.opts.Sandbox.ID() {
				return false
			}
			return (act.Task != "") == tasks && a.under(ctx, runs, d.Run, old.ID)
		},
	})
	if err != nil {
		return err
	}
	for _, d := range found.Replay {
		// The model makes the call again, so that the thread shows it.
		_, err := decisions.Resolve(ctx, d.ID, decision.Failed, outcome{Error: "interrupted; it is idempotent and may be made again", Again: true})
		if err != nil && !errors.Is(err, thole.ErrConflict) {
			return err
		}
	}
	return nil
}

// oldTasks adds the fates of tasks whose decision an earlier version of this
// program did not make: if a sub-agent was started, what it did is unknown.
func (a *Agent) oldTasks(ctx context.Context, sp *thole.Space, old *run.Run, fates map[string]fate) error {
	children, err := run.In(sp, a.opts.Runs).Children(ctx, old.ID)
	if err != nil {
		return err
	}
	for _, child := range children {
		if optionsOf(child).Task == "" {
			fates[taskTool] = fate{known: unknown}
		}
	}
	return nil
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

// verify looks whether an act had its effect.
func (a *Agent) verify(ctx context.Context, sp *thole.Space, d decision.Decision) (decision.Status, any, error) {
	var act action
	if err := json.Unmarshal(d.Input, &act); err != nil {
		return decision.Unknown, nil, nil
	}
	switch {
	case act.Path != "":
		return a.verifyFile(ctx, sp, &act)
	case act.Todos != "":
		return verifyTodos(ctx, sp, &d, &act)
	case act.Task != "":
		return a.verifyTask(ctx, sp, &d)
	}
	return decision.Unknown, nil, nil
}

// verifyFile looks whether a change of a file is there.
func (a *Agent) verifyFile(ctx context.Context, sp *thole.Space, act *action) (decision.Status, any, error) {
	state, r, err := look(a.opts.Sandbox, act)
	if err != nil || state != decision.Done {
		return state, r, err
	}
	files := file.In(sp)
	known, err := files.Get(ctx, act.Path)
	if err == nil && known.Hash != act.After { // the crash came before the screens were told
		_, err = files.Changed(ctx, act.Path, act.Before, act.After, nil)
	}
	if err != nil {
		return decision.Unknown, nil, err
	}
	return state, r, nil
}

// look reads from the file whether a change of it took place: done; failed, and
// it may be made again, if the file is as before; unknown if it is neither.
func look(sb *sandbox.Sandbox, act *action) (decision.Status, outcome, error) {
	_, hash, err := sb.ReadSettled(act.Path)
	missing := errors.Is(err, thole.ErrNotFound)
	switch {
	case err != nil && !missing:
		return decision.Unknown, outcome{}, err
	case !missing && hash == act.After:
		return decision.Done, outcome{Hash: hash, Verified: "the file has the new content"}, nil
	case missing && act.Before == "", !missing && hash == act.Before:
		return decision.Failed, outcome{Verified: "the file is as before; the change was not made", Again: true}, nil
	}
	return decision.Unknown, outcome{Hash: hash, Verified: "the file has neither the old nor the new content"}, nil
}

// verifyTodos looks whether the run changed a task list after the decision. Tools
// that change something run one at a time, and this one was the run's last: such
// a change is the decision's.
func verifyTodos(ctx context.Context, sp *thole.Space, d *decision.Decision, act *action) (decision.Status, any, error) {
	if d.Status != decision.Planned { // its version is not that of the plan any more
		return decision.Unknown, nil, nil
	}
	q := thole.ReadQuery{Stream: thread.Key(act.Todos), Types: []string{todo.TypeChanged}, After: d.Version}
	for e, err := range sp.Events(ctx, q) {
		if err != nil {
			return decision.Unknown, nil, err
		}
		if e.Cause == d.Run {
			return decision.Done, outcome{Verified: "the task list was changed"}, nil
		}
	}
	return decision.Failed, outcome{Verified: "the task list was not changed", Again: true}, nil
}

// verifyTask looks what became of the sub-agent that the decision started.
func (a *Agent) verifyTask(ctx context.Context, sp *thole.Space, d *decision.Decision) (decision.Status, any, error) {
	runs := run.In(sp, a.opts.Runs)
	children, err := runs.Children(ctx, d.Run)
	if err != nil {
		return decision.Unknown, nil, err
	}
	for _, child := range children {
		if optionsOf(child).Task != d.ID {
			continue
		}
		did, err := a.deeds(ctx, sp, child)
		for err == nil && child.ResumedBy != "" { // directly, and not by its parent
			if child, err = runs.Get(ctx, child.ResumedBy); err != nil {
				return decision.Unknown, nil, err
			}
			var more []string
			more, err = a.deeds(ctx, sp, child)
			did = append(did, more...)
		}
		switch {
		case err != nil || !child.Ended():
			return decision.Unknown, nil, err
		case child.Status == run.Succeeded:
			answer, err := lastText(ctx, thread.In(sp), child.Thread, child.Turn)
			return decision.Done, outcome{Output: cut(answer, maxShown)}, err
		case len(did) > 0: // one that began nothing leaves room for another
			return decision.Failed, outcome{Error: "the sub-agent was interrupted; this is what it had begun:\n" + strings.Join(did, "\n")}, nil
		}
	}
	return decision.Failed, outcome{Verified: "no sub-agent did anything", Again: true}, nil
}

// deeds lists what a run and those below it began to do, a line each.
func (a *Agent) deeds(ctx context.Context, sp *thole.Space, r *run.Run) ([]string, error) {
	var did []string
	for list := (decision.ListOptions{Run: r.ID}); ; {
		page, err := decision.In(sp).List(ctx, &list)
		if err != nil {
			return nil, err
		}
		for _, d := range page.Decisions {
			switch f := fateOf(&d); f.known {
			case happened:
				did = append(did, "- "+d.Action+": done")
			case failed:
				did = append(did, "- "+d.Action+": failed "+f.says)
			case unknown:
				did = append(did, "- "+d.Action+": whether it had its effect is unknown: find out before you repeat it")
			}
		}
		if list.After = page.Next; page.Next == "" {
			return did, nil
		}
	}
}

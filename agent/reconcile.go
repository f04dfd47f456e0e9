package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/edit"
	"github.com/thole-dev/thole/internal/clip"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
	"github.com/thole-dev/thole/state/todo"
)

// Reconcile finds out what became of the actions that an ended run left open. A change
// that is in its file was made; one whose file is as before was not, and may be
// made again; the journal tells whether a task list was changed and whether a
// sub-agent was started. The outcome of all else, such as a command that was
// stopped midway, is unknown until a person or an agent finds out. A change of a
// file in a directory other than this agent's stays planned: an agent that works
// there settles it. Reconcile returns what stays open. A run that is resumed does
// this first.
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
	for d, err := range decision.In(sp).All(ctx, decision.ListOptions{Incomplete: true, Run: runID}) {
		if err != nil {
			return nil, err
		}
		open = append(open, d)
	}
	return open, nil
}

// settleCrashed reconciles what runs of the named agents left open that were cut
// short: those that were when it begins, and each that is until ctx ends.
func (a *Agent) settleCrashed(ctx context.Context, sp *thole.Space, agents []string) {
	for ctx.Err() == nil {
		if a.watchCrashed(ctx, sp, agents) != nil {
			select { // the store has a problem: do not run hot
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// watchCrashed is settleCrashed until the watch fails or is trimmed.
func (a *Agent) watchCrashed(ctx context.Context, sp *thole.Space, agents []string) error {
	w, err := sp.Watch(ctx, &thole.WatchOptions{Types: []string{"run.finished"}, Durable: true})
	if err != nil {
		return err
	}
	defer w.Close()
	left := map[string]bool{}
	for d, err := range decision.In(sp).All(ctx, decision.ListOptions{Incomplete: true}) {
		if err != nil {
			return err
		}
		left[d.Run] = left[d.Run] || d.Status == decision.Planned && d.Run != ""
	}
	for {
		for id, planned := range left {
			r, err := run.In(sp, a.opts.Runs).Get(ctx, id)
			if !planned || errors.Is(err, thole.ErrNotFound) || err == nil && (!r.Ended() || !slices.Contains(agents, r.Agent)) {
				continue
			}
			if err == nil {
				_, err = a.reconcile(ctx, sp, r)
			}
			if err != nil {
				return err
			}
		}
		ds, err := w.Next(ctx)
		if err != nil {
			return err
		}
		clear(left)
		for _, d := range ds {
			var e run.FinishedData
			if err := d.As(&e); err != nil {
				return err
			}
			left[e.Run] = e.Status != run.Succeeded && e.Status != run.Failed // by a worker that lives, which settles itself
		}
	}
}

// fate is what is known, after a crash, of what a tool call did.
type fate struct {
	known knowledge
	says  string // its error or its output
}

type knowledge int

// The larger counts when a call made several decisions.
const (
	notBegun knowledge = iota // it never began, or may be done again without harm
	failed                    // it ran, and failed
	happened                  // it had its effect
	unknown
)

func (k knowledge) String() string {
	return [...]string{"not begun", "it ran, and failed", "it had its effect", "whether it had its effect is unknown: find out before you repeat it"}[k]
}

func fateOf(d *decision.Decision) fate {
	var r outcome
	_ = json.Unmarshal(d.Result, &r) // what says nothing says nothing
	switch {
	case d.Status == decision.Done:
		return fate{happened, r.Output}
	case d.Status == decision.Failed && r.Again:
		return fate{}
	case d.Status == decision.Failed:
		return fate{failed, join(r.Error, r.Output)}
	}
	return fate{known: unknown}
}

// reconcile is Reconcile; it returns what became of the effects of tool calls,
// by block. What its sub-agents left open is settled too, and before the tasks
// that they were started for.
func (a *Agent) reconcile(ctx context.Context, sp *thole.Space, old *run.Run) (map[string]fate, error) {
	fates := map[string]fate{}
	children, err := run.In(sp, a.opts.Runs).Children(ctx, old.ID)
	if err != nil {
		return nil, err
	}
	for _, child := range children {
		if o, err := optionsOf(child); err != nil || o.Task == "" {
			fates[taskTool] = fate{known: unknown} // an earlier version of this program made no decision about tasks
		}
		if child.Ended() {
			if _, err := a.reconcile(ctx, sp, child); err != nil {
				return nil, err
			}
		}
	}
	found, err := decision.In(sp).Reconcile(ctx, func(ctx context.Context, d decision.Decision) (decision.Status, any, error) {
		o, err := a.verify(ctx, sp, &d, children)
		if o.Verified == "" && o.status == decision.Unknown {
			return o.status, nil, err
		}
		return o.status, o, err
	}, &decision.ReconcileOptions{Select: func(d decision.Decision) bool {
		// A file of the same name in another directory says nothing about this one.
		act, ok := actionOf(&d)
		return ok && d.Run == old.ID && (act.Root == "" || act.Root == a.opts.Sandbox.ID())
	}})
	if err != nil {
		return nil, err
	}
	for _, d := range found.Replay {
		// The model makes the call again, so that the thread shows it.
		_, err := decision.In(sp).Resolve(ctx, d.ID, decision.Failed, outcome{Error: "interrupted; it is idempotent and may be made again", Again: true})
		if err != nil && !errors.Is(err, thole.ErrConflict) {
			return nil, err
		}
	}
	for d, err := range decision.In(sp).All(ctx, decision.ListOptions{Run: old.ID}) {
		if err != nil {
			return nil, err
		}
		act, _ := actionOf(&d)
		if f := fateOf(&d); act.Block != "" && f.known >= fates[act.Block].known { // one call may make several decisions
			fates[act.Block] = f
		}
	}
	return fates, nil
}

// actionOf reads what a decision is about; others may decide in the run's name
// too, about what this program knows nothing of.
func actionOf(d *decision.Decision) (act action, ok bool) {
	return act, json.Unmarshal(d.Input, &act) == nil
}

// verify looks whether an act of a run with those children had its effect.
func (a *Agent) verify(ctx context.Context, sp *thole.Space, d *decision.Decision, children []*run.Run) (outcome, error) {
	switch act, _ := actionOf(d); {
	case act.Path != "":
		state, hash, err := edit.Look(a.opts.Sandbox, act.Path, act.Before, act.After)
		switch {
		case err != nil:
			return outcome{}, err
		case state == edit.Never:
			return outcome{status: decision.Failed, Verified: "the file is as before; the change was not made", Again: true}, nil
		case state != edit.Placed:
			return outcome{status: decision.Unknown, Hash: hash, Verified: "the file has neither the old nor the new content"}, nil
		}
		files := file.In(sp)
		known, err := files.Get(ctx, act.Path)
		if err == nil && known.Hash != act.After { // the crash came before the screens were told
			_, err = files.Changed(ctx, act.Path, act.Before, act.After, nil)
		}
		return outcome{status: decision.Done, Hash: hash, Verified: "the file has the new content"}, err
	case act.Todos != "":
		return verifyTodos(ctx, sp, d, act.Todos)
	case act.Task != "":
		return a.verifyTask(ctx, sp, d, children)
	}
	return outcome{status: decision.Unknown}, nil
}

// verifyTodos looks whether the run changed a task list after the decision. Tools
// that change something run one at a time, and this one was the run's last: such
// a change is the decision's.
func verifyTodos(ctx context.Context, sp *thole.Space, d *decision.Decision, threadID string) (outcome, error) {
	if d.Status != decision.Planned { // its version is not that of the plan any more
		return outcome{status: decision.Unknown}, nil
	}
	q := thole.ReadQuery{Stream: thread.Key(threadID), Types: []string{todo.TypeChanged}, After: d.Version}
	for e, err := range sp.Events(ctx, q) {
		if err != nil {
			return outcome{}, err
		}
		if e.Cause == d.Run {
			return outcome{status: decision.Done, Verified: "the task list was changed"}, nil
		}
	}
	return outcome{status: decision.Failed, Verified: "the task list was not changed", Again: true}, nil
}

// verifyTask looks what became of the sub-agent that the decision started, itself
// or in a run that went on from it.
func (a *Agent) verifyTask(ctx context.Context, sp *thole.Space, d *decision.Decision, children []*run.Run) (outcome, error) {
	for _, child := range children {
		if o, err := optionsOf(child); err != nil || o.Task != d.ID {
			continue
		}
		did, err := deeds(ctx, sp, child.ID)
		for err == nil && child.ResumedBy != "" { // directly, and not by its parent
			if child, err = run.In(sp, a.opts.Runs).Get(ctx, child.ResumedBy); err != nil {
				return outcome{}, err
			}
			var more []string
			more, err = deeds(ctx, sp, child.ID)
			did = append(did, more...)
		}
		switch {
		case err != nil || !child.Ended():
			return outcome{status: decision.Unknown}, err
		case child.Status == run.Succeeded:
			answer, err := lastText(ctx, thread.In(sp), child.Thread, child.Turn)
			return outcome{status: decision.Done, Output: clip.Text(answer, maxShown)}, err
		case len(did) > 0: // one that began nothing leaves room for another
			return outcome{status: decision.Failed, Error: "the sub-agent was interrupted; this is what it had begun:\n" + strings.Join(did, "\n")}, nil
		}
	}
	return outcome{status: decision.Failed, Verified: "no sub-agent did anything", Again: true}, nil
}

// deeds lists what a run began to do, a line each.
func deeds(ctx context.Context, sp *thole.Space, runID string) (did []string, _ error) {
	for d, err := range decision.In(sp).All(ctx, decision.ListOptions{Run: runID}) {
		if err != nil {
			return nil, err
		}
		switch f := fateOf(&d); f.known {
		case notBegun:
		case failed:
			did = append(did, "- "+d.Action+": it ran, and failed: "+f.says)
		default:
			did = append(did, "- "+d.Action+": "+f.known.String())
		}
	}
	return did, nil
}

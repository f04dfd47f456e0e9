package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/run"
)

// Reconcile settles what a run left open that has ended, by looking: a change
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

package run

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/thole-dev/thole"
)

// WorkOptions of [Runs.Work]. The zero value is the default.
type WorkOptions struct {
	Agents  []string // the agents whose runs to claim; "", the default: runs that name no agent
	Name    string   // the agent recorded in runs that name none
	Workers int      // runs at once, those that wait for a signal included; default 8
}

// Work claims runs as they become ready and drives each with fn, as [Handle.Do] does,
// until ctx ends. It then cancels the runs at work and returns when they have ended.
// The result of a run is in its record only. After an error of the store, Work tries
// again a second later. Errors: ctx's cause; ErrClosed when the store was closed or
// the group is drained.
func (rs *Runs) Work(ctx context.Context, opts *WorkOptions, fn func(context.Context, *Handle) error) error {
	var o WorkOptions
	if opts != nil {
		o = *opts
	}
	if o.Agents == nil {
		o.Agents = []string{""}
	}
	if o.Workers <= 0 {
		o.Workers = 8
	}
	slots := make(chan struct{}, o.Workers)
	errs := make(chan error, len(o.Agents))
	var working sync.WaitGroup
	for _, agent := range o.Agents {
		claim := &ClaimOptions{Agent: agent, Name: o.Name, Wait: time.Minute}
		working.Go(func() {
			errs <- rs.workFor(ctx, claim, slots, func(h *Handle) {
				working.Go(func() {
					defer func() { <-slots }()
					_ = h.Do(ctx, fn) // the run's record has the result
				})
			})
		})
	}
	working.Wait()
	return <-errs
}

// workFor claims a run whenever slots has room, and calls begin with it.
func (rs *Runs) workFor(ctx context.Context, claim *ClaimOptions, slots chan struct{}, begin func(*Handle)) error {
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		h, err := rs.Claim(ctx, claim)
		if err == nil {
			begin(h)
			continue
		}
		<-slots
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, thole.ErrClosed):
			return err
		case !errors.Is(err, thole.ErrNotFound):
			sleep(ctx, time.Second)
		}
	}
}

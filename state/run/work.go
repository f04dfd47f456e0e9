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
	Agents  []string // whose runs; default, and for "": those that name no agent
	Name    string   // the agent that takes them, for runs that name none
	Workers int      // runs at once; default 8
}

// Work claims runs as they come and drives each with fn, as [Handle.Do] does, until
// ctx ends; those at work are then cancelled, and Work returns when they have ended.
// How a run ends is in the run; a store that fails is asked again after a second.
// Errors: ctx's cause; ErrClosed when the store was closed or the group is drained.
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
					_ = h.Do(ctx, fn) // how it ended is in the run
				})
			})
		})
	}
	working.Wait()
	return <-errs
}

// workFor claims a run whenever there is a slot and hands it to begin.
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

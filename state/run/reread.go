package run

import (
	"context"
	"fmt"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// These functions read an answer that the receipt does not hold from the commit's
// events: see [thole.Reread].

func (rs *Runs) rereadStarted(ctx context.Context, events []thole.Event) (started, error) {
	r, err := rs.rereadRun(ctx, events)
	return started{Run: r}, err
}

func (rs *Runs) rereadClaimed(ctx context.Context, events []thole.Event) (claimed, error) {
	r, err := rs.rereadRun(ctx, events)
	if err != nil {
		return claimed{}, err
	}
	c := claimed{Run: r, Fence: thole.Fence{Key: key(r.ID) + "/owner"}}
	var added thread.Added
	if err := last(events, "message.added", &added); err == nil && added.Message != nil {
		c.Request = added.Message.Blocks
	}
	return c, nil
}

// rereadRun returns the run that a commit started or queued.
func (rs *Runs) rereadRun(ctx context.Context, events []thole.Event) (*Run, error) {
	var e struct{ Run string } // both events name it
	err := last(events, "run.started", &e)
	if err != nil {
		err = last(events, "run.queued", &e)
	}
	if err != nil {
		return nil, err
	}
	return rs.Peek(ctx, e.Run)
}

// rereadBlock returns the id of the block that a commit wrote.
func rereadBlock(_ context.Context, events []thole.Event) (string, error) {
	var u thread.Updated
	err := last(events, "tool.started", &u)
	if err != nil {
		err = last(events, "message.updated", &u)
	}
	return u.Block.ID, err
}

// last decodes the last event of the type into v; ErrCorrupt if there is none.
func last(events []thole.Event, typ string, v any) error {
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Type == typ {
			return events[i].As(v)
		}
	}
	return fmt.Errorf("%w: the commit under this idempotency key holds no %s", thole.ErrCorrupt, typ)
}

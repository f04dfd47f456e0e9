package thread

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/thole-dev/thole"
)

// These functions read an answer that the receipt does not hold from the commit's
// events: see [thole.Reread].

func (ts *Threads) rereadCreated(ctx context.Context, events []thole.Event) (*Thread, error) {
	i := slices.IndexFunc(events, func(e thole.Event) bool { return e.Type == "thread.created" })
	if i < 0 {
		return nil, fmt.Errorf("%w: the commit under this idempotency key made no thread", thole.ErrCorrupt)
	}
	id, _ := streamThread(events[i].Stream)
	return ts.Get(ctx, id)
}

func rereadPosted(ctx context.Context, events []thole.Event) (*Turn, error) {
	said, err := rereadAppended(ctx, events)
	if err != nil {
		return nil, err
	}
	t := said.turn()
	for i, e := range events {
		if answer, err := rereadAppended(ctx, events[i:]); err == nil && e.Type == "message.added" && answer.Role == Assistant {
			t.Status, t.Response = Done, answer.Blocks
		}
	}
	return t, nil
}

func rereadAppended(_ context.Context, events []thole.Event) (*Message, error) {
	i := slices.IndexFunc(events, func(e thole.Event) bool { return e.Type == "message.added" })
	if i < 0 {
		return nil, fmt.Errorf("%w: the commit under this idempotency key added no message", thole.ErrCorrupt)
	}
	var a Added
	if err := events[i].As(&a); err != nil || a.Message == nil { // redacted
		return nil, errors.Join(thole.ErrNotFound, err)
	}
	m := *a.Message
	m.Turn, m.Time, m.Blocks = a.Turn, events[i].Time, numbered(a.Message)
	return &m, nil
}

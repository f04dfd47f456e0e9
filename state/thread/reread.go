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

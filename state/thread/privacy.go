package thread

import (
	"context"
	"errors"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

// VisibleTo reports whether an actor may know of a thread with that visibility and owner,
// and of all that belongs to it: a private thread is its owner's alone. Admins of the space
// and the workers of the thread's runs may know of it too; their tokens say who they are.
func VisibleTo(actor, visibility, owner string) bool {
	return visibility != Private || owner == actor
}

// MayKnow is [VisibleTo] for the handle's actor and the thread with that id. For a thread
// that was destroyed or has expired, the final state in its last event decides. It is false
// for a thread that never existed or left no final state. These take as many reads as a
// thread that the actor may not know of, so that the time discloses nothing.
func (ts *Threads) MayKnow(ctx context.Context, id string) (bool, error) {
	actor := ts.sp.Actor()
	t, err := ts.Get(ctx, id)
	if err == nil && VisibleTo(actor, t.Visibility, t.Owner) {
		return true, nil
	}
	last, lastErr := ts.final(ctx, id) // even if there is a head: see above
	switch {
	case err == nil:
		return false, nil
	case !errors.Is(err, thole.ErrNotFound):
		return false, err
	case lastErr != nil || last == nil:
		return false, lastErr
	}
	return VisibleTo(actor, last.Visibility, last.Owner), nil
}

// mayKnow is [Threads.MayKnow] for the declaration.
func mayKnow(ctx context.Context, sp *thole.Space, id string) (bool, error) {
	return In(sp).MayKnow(ctx, id)
}

// final returns the last head of a thread that has ended, or nil if its last event does
// not have it.
func (ts *Threads) final(ctx context.Context, id string) (*Thread, error) {
	page, err := ts.sp.Read(ctx, thole.ReadQuery{
		Stream: Key(id), Types: []string{"thread.destroyed", "thread.expired"}, Backward: true, Limit: 1,
	})
	if err != nil || len(page.Events) == 0 {
		return nil, err
	}
	var end thole.Expired
	if err := page.Events[0].As(&end); err != nil {
		return nil, err
	}
	if end.Value == nil || string(end.Value) == "null" {
		return nil, nil
	}
	t := new(Thread)
	return t, journal.Decode("final state of thread "+id, end.Value, t)
}

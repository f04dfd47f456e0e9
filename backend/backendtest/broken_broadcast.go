package backendtest

import (
	"context"
	"slices"
	"testing"

	"github.com/thole-dev/thole/journal"
)

// sender and receiver are [journal.Capabilities].SendBroadcasts and ReceiveBroadcasts.
type (
	sender   = func(ctx context.Context, list []journal.Broadcast) error
	receiver = func(ctx context.Context, hear func(journal.Broadcast)) error
)

// carrying replaces how a good backend sends or receives broadcasts; nil keeps its own.
type carrying struct {
	send    func(ctx context.Context, good sender, list []journal.Broadcast) error
	receive func(ctx context.Context, good receiver, hear func(journal.Broadcast)) error
}

func (c carrying) wrap(b journal.Backend) journal.Backend {
	can := b.Capabilities()
	send, receive := can.SendBroadcasts, can.ReceiveBroadcasts
	if c.send != nil {
		can.SendBroadcasts = func(ctx context.Context, list []journal.Broadcast) error { return c.send(ctx, send, list) }
	}
	if c.receive != nil {
		can.ReceiveBroadcasts = func(ctx context.Context, hear func(journal.Broadcast)) error {
			return c.receive(ctx, receive, hear)
		}
	}
	return able{b, can}
}

// carries breaks the broadcasts of a harness by wrapping all instances.
func carries(broken carrying) func(testing.TB, Harness, Opener) Harness {
	return func(_ testing.TB, good Harness, _ Opener) Harness {
		if !good.has(Broadcasts) {
			return good
		}
		good.Backend = broken.wrap(good.Backend)
		if second := good.Second; second != nil {
			good.Second = func(t testing.TB) journal.Backend { return broken.wrap(second(t)) }
		}
		return good
	}
}

func brokenBroadcasts() []broken {
	const ends, keeps = "broadcast/receive ends with its context and returns nil", "broadcast/another instance hears a broadcast as it was sent"
	const orders, huge = "broadcast/broadcasts come in the order of each sender", "broadcast/a huge broadcast does not hold up those after it"
	return []broken{
		{"broadcasts go nowhere", keeps, carries(carrying{send: func(context.Context, sender, []journal.Broadcast) error { return nil }})},
		{"a broadcast loses its origin", keeps, carries(changingBroadcasts(func(sig *journal.Broadcast) { sig.Origin = "" }))},
		{"a broadcast loses its refs", keeps, carries(changingBroadcasts(func(sig *journal.Broadcast) { sig.Event.Refs = nil }))},
		{"broadcasts come in reverse", orders, carries(carrying{send: sendReversed})},
		{"broadcasts come twice", orders, carries(carrying{send: sendTwice})},
		{"what is too large takes the others with it", huge, carries(carrying{send: sendAllOrNone})},
		{"what is too large ends receiving", huge, carries(carrying{receive: receiveSmall})},
		{"receiving ends at once", ends, carries(carrying{receive: func(context.Context, receiver, func(journal.Broadcast)) error { return nil }})},
		{"receiving ends with its context's error", ends, carries(carrying{receive: receiveFails})},
		{"sending goes on after close", ends, carries(carrying{send: sendClosed})},
		{"receiving leaves a goroutine", "broadcast/leaves no goroutine after close", receiveLeaks},
	}
}

func changingBroadcasts(change func(*journal.Broadcast)) carrying {
	return carrying{send: func(ctx context.Context, good sender, broadcasts []journal.Broadcast) error {
		broadcasts = slices.Clone(broadcasts)
		for i := range broadcasts {
			change(&broadcasts[i])
		}
		return good(ctx, broadcasts)
	}}
}

func sendReversed(ctx context.Context, good sender, broadcasts []journal.Broadcast) error {
	broadcasts = slices.Clone(broadcasts)
	slices.Reverse(broadcasts)
	return good(ctx, broadcasts)
}

func sendTwice(ctx context.Context, good sender, broadcasts []journal.Broadcast) error {
	var twice []journal.Broadcast
	for _, sig := range broadcasts {
		twice = append(twice, sig, sig)
	}
	return good(ctx, twice)
}

func tooLarge(sig journal.Broadcast) bool { return len(sig.Event.Data) > 8000 }

func sendAllOrNone(ctx context.Context, good sender, broadcasts []journal.Broadcast) error {
	if slices.ContainsFunc(broadcasts, tooLarge) {
		return journal.ErrTooLarge
	}
	return good(ctx, broadcasts)
}

func receiveSmall(ctx context.Context, good receiver, hear func(journal.Broadcast)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return good(ctx, func(sig journal.Broadcast) {
		if ctx.Err() != nil || tooLarge(sig) {
			cancel()
			return
		}
		hear(sig)
	})
}

func receiveFails(ctx context.Context, good receiver, hear func(journal.Broadcast)) error {
	if err := good(ctx, hear); err != nil {
		return err
	}
	return ctx.Err()
}

func sendClosed(ctx context.Context, good sender, broadcasts []journal.Broadcast) error {
	_ = good(ctx, broadcasts)
	return nil
}

func receiveLeaks(t testing.TB, good Harness, open Opener) Harness {
	over := untilCleanup(t)
	return carries(carrying{receive: func(ctx context.Context, good receiver, hear func(journal.Broadcast)) error {
		go func() { <-over }()
		return good(ctx, hear)
	}})(t, good, open)
}

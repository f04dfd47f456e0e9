package backendtest

import (
	"context"
	"slices"
	"testing"

	"github.com/thole-dev/thole/journal"
)

// relaying is a good backend with another Send and Receive.
type relaying struct {
	journal.Backend
	send    func(ctx context.Context, good journal.Relay, signals []journal.Signal) error
	receive func(ctx context.Context, good journal.Relay, hear func(journal.Signal)) error
}

func (b relaying) Send(ctx context.Context, signals []journal.Signal) error {
	if b.send == nil {
		return relayOf(b.Backend).Send(ctx, signals)
	}
	return b.send(ctx, relayOf(b.Backend), signals)
}

func (b relaying) Receive(ctx context.Context, hear func(journal.Signal)) error {
	if b.receive == nil {
		return relayOf(b.Backend).Receive(ctx, hear)
	}
	return b.receive(ctx, relayOf(b.Backend), hear)
}

// relays breaks a harness that relays signals by wrapping all instances.
func relays(broken relaying) func(testing.TB, Harness, Opener) Harness {
	wrap := func(good journal.Backend) journal.Backend {
		b := broken
		b.Backend = good
		return b
	}
	return func(_ testing.TB, good Harness, _ Opener) Harness {
		if !good.has(Signals) {
			return good
		}
		good.Backend = wrap(good.Backend)
		if second := good.Second; second != nil {
			good.Second = func(t testing.TB) journal.Backend { return wrap(second(t)) }
		}
		return good
	}
}

func brokenRelays() []broken {
	const ends, keeps = "relay/receive ends with its context and returns nil", "relay/another instance hears a signal as it was sent"
	const orders, huge = "relay/signals come in the order of each sender", "relay/a huge signal does not hold up those after it"
	return []broken{
		{"signals go nowhere", keeps, relays(relaying{send: func(context.Context, journal.Relay, []journal.Signal) error { return nil }})},
		{"a signal loses its origin", keeps, relays(changingSignals(func(sig *journal.Signal) { sig.Origin = "" }))},
		{"a signal loses its refs", keeps, relays(changingSignals(func(sig *journal.Signal) { sig.Event.Refs = nil }))},
		{"signals come in reverse", orders, relays(relaying{send: sendReversed})},
		{"signals come twice", orders, relays(relaying{send: sendTwice})},
		{"what is too large takes the others with it", huge, relays(relaying{send: sendAllOrNone})},
		{"what is too large ends receiving", huge, relays(relaying{receive: receiveSmall})},
		{"receiving ends at once", ends, relays(relaying{receive: func(context.Context, journal.Relay, func(journal.Signal)) error { return nil }})},
		{"receiving ends with its context's error", ends, relays(relaying{receive: receiveFails})},
		{"sending goes on after close", ends, relays(relaying{send: sendClosed})},
		{"receiving leaves a goroutine", "relay/leaves no goroutine after close", receiveLeaks},
	}
}

func changingSignals(change func(*journal.Signal)) relaying {
	return relaying{send: func(ctx context.Context, good journal.Relay, signals []journal.Signal) error {
		signals = slices.Clone(signals)
		for i := range signals {
			change(&signals[i])
		}
		return good.Send(ctx, signals)
	}}
}

func sendReversed(ctx context.Context, good journal.Relay, signals []journal.Signal) error {
	signals = slices.Clone(signals)
	slices.Reverse(signals)
	return good.Send(ctx, signals)
}

func sendTwice(ctx context.Context, good journal.Relay, signals []journal.Signal) error {
	var twice []journal.Signal
	for _, sig := range signals {
		twice = append(twice, sig, sig)
	}
	return good.Send(ctx, twice)
}

func tooLarge(sig journal.Signal) bool { return len(sig.Event.Data) > 8000 }

func sendAllOrNone(ctx context.Context, good journal.Relay, signals []journal.Signal) error {
	if slices.ContainsFunc(signals, tooLarge) {
		return journal.ErrTooLarge
	}
	return good.Send(ctx, signals)
}

func receiveSmall(ctx context.Context, good journal.Relay, hear func(journal.Signal)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return good.Receive(ctx, func(sig journal.Signal) {
		if ctx.Err() != nil || tooLarge(sig) {
			cancel()
			return
		}
		hear(sig)
	})
}

func receiveFails(ctx context.Context, good journal.Relay, hear func(journal.Signal)) error {
	if err := good.Receive(ctx, hear); err != nil {
		return err
	}
	return ctx.Err()
}

func sendClosed(ctx context.Context, good journal.Relay, signals []journal.Signal) error {
	_ = good.Send(ctx, signals)
	return nil
}

func receiveLeaks(t testing.TB, good Harness, open Opener) Harness {
	over := untilCleanup(t)
	return relays(relaying{receive: func(ctx context.Context, good journal.Relay, hear func(journal.Signal)) error {
		go func() { <-over }()
		return good.Receive(ctx, hear)
	}})(t, good, open)
}

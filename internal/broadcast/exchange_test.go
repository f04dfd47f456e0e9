package broadcast_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/internal/broadcast"
	"github.com/thole-dev/thole/journal"
)

func open(t *testing.T) *broadcast.Exchange {
	return broadcast.New(nil, func(*journal.Broadcast) error { return nil }, func(string, journal.Event) {}, slog.New(slog.DiscardHandler))
}

// attach attaches x to a backend that sends with send and never receives.
func attach(t *testing.T, x *broadcast.Exchange, send func(context.Context, []journal.Broadcast) error) {
	ctx, stop := context.WithCancel(t.Context())
	var tasks sync.WaitGroup
	x.Attach(ctx, journal.Capabilities{
		SendBroadcasts: send,
		ReceiveBroadcasts: func(ctx context.Context, _ func(journal.Broadcast)) error {
			<-ctx.Done()
			return nil
		},
	}, &tasks)
	t.Cleanup(func() {
		stop()
		tasks.Wait()
	})
}

func publish(x *broadcast.Exchange, bytes int) {
	x.Publish("project:shop", journal.Event{Data: json.RawMessage(strings.Repeat("1", bytes))})
}

func TestAReceiverThatHasLeftIsNoLongerSentTo(t *testing.T) {
	x := open(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- x.Receive(ctx, func(journal.Broadcast) { stop() }) }()
	for ctx.Err() == nil { // until it listens and hears one
		publish(x, 1)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if x.Busy() {
		t.Error("the exchange keeps a receiver that has left")
	}
}

func TestWhatIsSentAtOnceIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t)
		gate := make(chan struct{})
		var got []int
		attach(t, x, func(_ context.Context, list []journal.Broadcast) error {
			got = append(got, len(list))
			<-gate
			return nil
		})
		publish(x, 1)
		synctest.Wait() // the first is being sent
		publish(x, 600<<10)
		publish(x, 600<<10)
		close(gate)
		synctest.Wait()
		if len(got) != 3 {
			t.Errorf("sent in parts of %v broadcasts, want 3 parts", got)
		}
	})
}

func TestABackendThatHangsLosesOnlyWhatItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t)
		sent := make(chan int, 1)
		hangs := true
		attach(t, x, func(ctx context.Context, list []journal.Broadcast) error {
			if hangs {
				hangs = false
				<-ctx.Done()
				return ctx.Err()
			}
			sent <- len(list)
			return nil
		})
		publish(x, 1)
		synctest.Wait() // it hangs
		publish(x, 1)
		select {
		case n := <-sent:
			if n != 1 {
				t.Errorf("sent %d broadcasts after the one that was lost, want 1", n)
			}
		case <-time.After(time.Minute):
			t.Error("the broadcasts wait for a backend that hangs")
		}
	})
}

package backendtest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
)

// carrier is an instance of a store in memory that passes broadcasts to all
// instances, as a good one does.
type carrier struct {
	journal.Backend
	line   *line
	closed atomic.Bool
}

type line struct {
	mu    sync.Mutex
	hears map[*func(journal.Broadcast)]bool
}

func (r *carrier) send(_ context.Context, broadcasts []journal.Broadcast) error {
	if r.closed.Load() {
		return journal.ErrClosed
	}
	r.line.mu.Lock()
	defer r.line.mu.Unlock()
	for _, sig := range broadcasts {
		sig.Origin += " store_on_the_way"
		for hear := range r.line.hears {
			(*hear)(sig)
		}
	}
	return nil
}

func (r *carrier) receive(ctx context.Context, hear func(journal.Broadcast)) error {
	r.line.mu.Lock()
	r.line.hears[&hear] = true
	r.line.mu.Unlock()
	<-ctx.Done()
	r.line.mu.Lock()
	defer r.line.mu.Unlock()
	delete(r.line.hears, &hear)
	return nil
}

func (r *carrier) Capabilities() journal.Capabilities {
	return journal.Capabilities{Durability: journal.None, SendBroadcasts: r.send, ReceiveBroadcasts: r.receive}
}

func (r *carrier) Close() error {
	r.closed.Store(true)
	return nil
}

func openCarrier(testing.TB) Harness {
	s, l := memstore.New(), &line{hears: map[*func(journal.Broadcast)]bool{}}
	return Harness{
		Backend: &carrier{Backend: s, line: l},
		Second:  func(testing.TB) journal.Backend { return &carrier{Backend: s, line: l} },
	}
}

func TestABackendThatCarriesBroadcastsIsAcceptedAndABrokenOneIsRejected(t *testing.T) {
	byName := map[string]testCase{}
	for _, c := range broadcastCases() {
		byName[c.name] = c
		t.Run(c.name, func(t *testing.T) {
			var checks atomic.Int64
			if runCase(t, c, openCarrier, &checks, patience) || checks.Load() == 0 {
				t.Error("the case is absent")
			}
		})
	}
	for _, b := range brokenBroadcasts() {
		t.Run(b.name, func(t *testing.T) {
			r := record(t, func(t testing.TB) {
				var checks atomic.Int64
				runCase(t, byName[b.caught], func(t testing.TB) Harness { return b.harness(t, openCarrier(t), openCarrier) }, &checks, littlePatience)
			})
			if !r.failed || r.panicked != "" {
				t.Errorf("case %q passes, or panics: %s", b.caught, r.panicked)
			}
		})
	}
}

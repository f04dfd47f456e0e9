package backendtest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
)

// relayed is an instance of a store in memory that passes signals to all
// instances, as a good one does.
type relayed struct {
	journal.Backend
	line   *line
	closed atomic.Bool
}

type line struct {
	mu    sync.Mutex
	hears map[*func(journal.Signal)]bool
}

func (r *relayed) Send(_ context.Context, signals []journal.Signal) error {
	if r.closed.Load() {
		return journal.ErrClosed
	}
	r.line.mu.Lock()
	defer r.line.mu.Unlock()
	for _, sig := range signals {
		sig.Origin += " store_on_the_way"
		for hear := range r.line.hears {
			(*hear)(sig)
		}
	}
	return nil
}

func (r *relayed) Receive(ctx context.Context, hear func(journal.Signal)) error {
	r.line.mu.Lock()
	r.line.hears[&hear] = true
	r.line.mu.Unlock()
	<-ctx.Done()
	r.line.mu.Lock()
	defer r.line.mu.Unlock()
	delete(r.line.hears, &hear)
	return nil
}

func (r *relayed) Close() error {
	r.closed.Store(true)
	return nil
}

func openRelayed(testing.TB) Harness {
	s, l := memstore.New(), &line{hears: map[*func(journal.Signal)]bool{}}
	return Harness{
		Backend: &relayed{Backend: s, line: l},
		Second:  func(testing.TB) journal.Backend { return &relayed{Backend: s, line: l} },
	}
}

func TestARelayIsAcceptedAndABrokenOneIsRejected(t *testing.T) {
	byName := map[string]testCase{}
	for _, c := range relayCases() {
		byName[c.name] = c
		t.Run(c.name, func(t *testing.T) {
			var checks atomic.Int64
			if runCase(t, c, openRelayed, &checks, patience) || checks.Load() == 0 {
				t.Error("the case is absent")
			}
		})
	}
	for _, b := range brokenRelays() {
		t.Run(b.name, func(t *testing.T) {
			r := record(t, func(t testing.TB) {
				var checks atomic.Int64
				runCase(t, byName[b.caught], func(t testing.TB) Harness { return b.harness(t, openRelayed(t), openRelayed) }, &checks, littlePatience)
			})
			if !r.failed || r.panicked != "" {
				t.Errorf("case %q passes, or panics: %s", b.caught, r.panicked)
			}
		})
	}
}

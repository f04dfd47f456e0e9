package thole_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openOn opens a Store on b for the test.
func openOn(t testing.TB, b journal.Backend, opts *thole.Options) *thole.Store {
	t.Helper()
	o := with(opts)
	o.Logger = slog.New(slog.DiscardHandler) // the test causes the faults
	s, err := thole.Open(context.Background(), b, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

var errFault = errors.New("injected fault")

// when says whether a fault strikes before or after the commit is applied.
type when bool

const (
	before when = false // nothing was applied
	after  when = true  // it was applied, but the caller does not know
)

// faults is a Backend that fails on demand and records its calls.
type faults struct {
	journal.Backend
	shared bool          // Close leaves the backend open for another Store
	gate   chan struct{} // when not nil, each Commit takes one from it first

	mu      sync.Mutex
	count   int // calls of Commit
	at      int // the call that fails; 0: no call
	when    when
	onward  bool // also fail all later calls
	batches [][]thole.Commit
	gets    int
	hinted  []func(string)
}

// breakCommit makes the n-th Commit from now fail.
func (f *faults) breakCommit(n int, w when) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.when, f.onward = f.count+n, w, false
}

// breakFrom makes the n-th Commit from now fail, and all later ones before anything is
// applied, as if the process had died.
func (f *faults) breakFrom(n int, w when) {
	f.breakCommit(n, w)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onward = true
}

func (f *faults) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	if f.gate != nil {
		<-f.gate
	}
	f.mu.Lock()
	f.count++
	f.batches = append(f.batches, slices.Clone(batch))
	strikes := f.at != 0 && f.count == f.at
	dead := f.at != 0 && f.onward && f.count > f.at
	w := f.when
	f.mu.Unlock()
	if dead || strikes && w == before {
		return nil, errFault
	}
	res, err := f.Backend.Commit(ctx, batch)
	if strikes {
		return nil, errFault
	}
	return res, err
}

func (f *faults) Get(ctx context.Context, space string, keys ...string) ([]thole.Record, error) {
	f.mu.Lock()
	f.gets++
	f.mu.Unlock()
	return f.Backend.Get(ctx, space, keys...)
}

func (f *faults) commits() [][]thole.Commit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.batches)
}

func (f *faults) Close() error {
	if f.shared {
		return nil
	}
	return f.Backend.Close()
}

// hinting is a backend whose Stores send each other hints of their commits.
type hinting struct{ *faults }

func (h hinting) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	res, err := h.faults.Commit(ctx, batch)
	h.mu.Lock()
	wakes := slices.Clone(h.hinted)
	h.mu.Unlock()
	for _, wake := range wakes {
		for _, c := range batch {
			wake(c.Space)
		}
	}
	return res, err
}

func (h hinting) Capabilities() journal.Capabilities {
	return journal.Capabilities{Durability: journal.None, Hints: h.hints}
}

func (h hinting) hints(ctx context.Context, wake func(string)) error {
	h.mu.Lock()
	h.hinted = append(h.hinted, wake)
	h.mu.Unlock()
	<-ctx.Done()
	return nil
}

package main_test

import (
	"context"
	"errors"
	"hash/fnv"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

// roamer is a watcher of one space that reconnects to another member of the cluster
// whenever its stream ends, and continues where it was.
type roamer struct {
	c     *cluster
	space string
	first int // the member it begins at

	mu      sync.Mutex
	seen    []sighting
	streams int
	fault   error
}

// sighting is an event that came over a stream.
type sighting struct {
	position string
	hash     uint64 // of its JSON
}

func sightingOf(position, text string) sighting {
	h := fnv.New64a()
	h.Write([]byte(text))
	return sighting{position, h.Sum64()}
}

// roam watches until ctx ends.
func (r *roamer) roam(ctx context.Context) {
	for at, last := r.first, ""; ctx.Err() == nil; at++ {
		url := r.c.URLs[at%len(r.c.URLs)] + "/v1/spaces/" + r.space + "/events"
		err := servertest.Watch(ctx, r.c.HTTP, url, last, func(f servertest.Frame) error {
			if f.ID != "" {
				last = f.ID
				r.take(f)
			}
			return nil
		})
		r.mu.Lock()
		r.streams++
		var refused *servertest.RefusedError
		if errors.As(err, &refused) && refused.Status != http.StatusServiceUnavailable {
			r.fault = err
		}
		r.mu.Unlock()
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (r *roamer) take(f servertest.Frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, sightingOf(f.ID, f.Data))
}

func (r *roamer) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

// opened returns how many streams it has had.
func (r *roamer) opened() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streams
}

// sawAll waits until the roamer has seen as much as the journal contains, and checks
// that it saw the journal's events, once and in order.
func (r *roamer) sawAll(t *testing.T, journal []servertest.Event) {
	t.Helper()
	servertest.Eventually(t, 30*time.Second, "the last event at a watcher of "+r.space, func() bool { return r.count() >= len(journal) })
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault != nil {
		t.Errorf("a watcher of %s was refused: %v", r.space, r.fault)
	}
	for i, e := range journal {
		if got := r.seen[i]; got != sightingOf(e.Position, e.Text) {
			t.Errorf("event %d at a watcher of %s: got %s, want %s (or another content)", i, r.space, got.position, e.Position)
			return
		}
	}
}

// watchAround starts watchers of a space, each at another member, until stop is called.
func (c *cluster) watchAround(t *testing.T, space string, n int) (all []*roamer, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range n {
		r := &roamer{c: c, space: space, first: i}
		all = append(all, r)
		wg.Go(func() { r.roam(ctx) })
	}
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return all, stop
}

package thole_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
)

// halves is a backend of two shards: the spaces of users, and all others. Batches for
// users wait for the gate, and fail if it yields an error.
type halves struct {
	journal.Backend
	t    testing.TB
	gate chan error
}

func (h halves) Capabilities() journal.Capabilities {
	return journal.Capabilities{Durability: journal.None, Shards: 2, Shard: h.shard}
}

func (h halves) shard(space string) int {
	if strings.HasPrefix(space, "user:") {
		return 1
	}
	return 0
}

func (h halves) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	for _, c := range batch {
		if h.shard(c.Space) != h.shard(batch[0].Space) {
			h.t.Errorf("a batch holds commits to %s and %s", batch[0].Space, c.Space)
		}
	}
	if h.shard(batch[0].Space) == 1 {
		if err := <-h.gate; err != nil {
			return nil, err
		}
	}
	return h.Backend.Commit(ctx, batch)
}

func TestAShardNeitherWaitsForNorFailsWithAnother(t *testing.T) {
	h := halves{memstore.New(), t, make(chan error)}
	s := openOn(t, h, &thole.Options{Sweep: -1})
	event := thole.Commit{Events: []thole.Event{{Stream: "s", Type: "a.b"}}}
	slow := make(chan error, 1)
	go func() {
		_, err := s.Space("user:1").Commit(t.Context(), event)
		slow <- err
	}()
	if _, err := s.Space("project:a").Commit(t.Context(), event); err != nil {
		t.Errorf("while the other shard hangs: %v", err)
	}
	broken := errors.New("broken")
	h.gate <- broken
	if err := <-slow; !errors.Is(err, broken) {
		t.Errorf("the shard that fails: got %v, want its error", err)
	}

	go func() { h.gate <- thole.ErrInvalid }() // an error that does not say which commits were applied
	results := applied(t, s, rawCommit("user:1", event.Events...), rawCommit("project:a", event.Events...))
	if !errors.Is(results[0].Err, thole.ErrInvalid) || results[1].Err != nil || results[1].Last.Seq != 2 {
		t.Errorf("a batch over two shards of which one fails: got %+v, want the error of its own commit and seq 2", results)
	}

	go func() { h.gate <- nil }()
	results = applied(t, s, rawCommit("project:a", event.Events...), rawCommit("user:1", event.Events...), rawCommit("project:a", event.Events...))
	if results[0].Last.Seq != 3 || results[1].Last.Seq != 1 || results[2].Last.Seq != 4 {
		t.Errorf("a batch over two shards: got %v, want seqs 3, 1, 4", results)
	}
}

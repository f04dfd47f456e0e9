package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// late returns an error for the first commit that takes a signal, and applies it right
// before the second one.
type late struct {
	*memstore.Store
	mu   sync.Mutex
	held []thole.Commit
	made bool
}

func (l *late) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range batch {
		for _, w := range c.Writes {
			switch {
			case !strings.Contains(w.Key, "/taken/") || w.Value == nil:
			case l.held == nil:
				l.held = []thole.Commit{c}
				return nil, errors.New("the connection broke")
			case !l.made:
				l.made = true
				if _, err := l.Store.Commit(ctx, l.held); err != nil {
					return nil, err
				}
			}
		}
	}
	return l.Store.Commit(ctx, batch)
}

func TestASignalIsNotLostWhoseTakingArrivesLate(t *testing.T) {
	for _, key := range []string{"", "k"} {
		s, err := thole.Open(t.Context(), &late{Store: memstore.New()}, &thole.Options{Concepts: []*thole.Concept{run.Concept}, Sweep: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sp := s.Space("project:shop")
		th, err := thread.In(sp).Create(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		rs := run.In(sp, nil)
		r, err := rs.Start(t.Context(), th.ID, run.Request{Prompt: "go"})
		if err != nil {
			t.Fatal(err)
		}
		h, err := rs.Claim(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, answer := range []string{`"yes"`, `"no"`} {
			if err := rs.Signal(t.Context(), r.ID, "ok", json.RawMessage(answer)); err != nil {
				t.Fatal(err)
			}
		}
		ctx := t.Context()
		if key != "" {
			ctx = thole.WithIdempotencyKey(ctx, key, "f")
		}
		if _, err := h.Wait(ctx, "ok"); err == nil {
			t.Fatal("the first Wait did not fail")
		}
		for _, want := range []string{`"yes"`, `"no"`} {
			got, err := h.Wait(ctx, "ok")
			if err != nil || string(got) != want {
				t.Errorf("key %q: got %s, %v; want %s", key, got, err, want)
			}
			ctx = t.Context()
		}
	}
}

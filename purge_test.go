package thole_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

// halfPurged purges and then fails, as a backend does that cannot rewrite a file.
type halfPurged struct{ *memstore.Store }

func (h halfPurged) Purge(ctx context.Context, space string, p thole.Purge) error {
	return errors.Join(h.Store.Purge(ctx, space, p), errors.New("its traces are left"))
}

func TestWhatAPurgeRemovedIsGoneFromMemoryThoughItFailed(t *testing.T) {
	s, err := thole.Open(t.Context(), halfPurged{memstore.New()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sp := s.Space("project:shop")
	res, err := sp.Commit(t.Context(), thole.Commit{Events: []thole.Event{{Stream: "app/s", Type: "a.b", Data: []byte(`"secret"`)}}})
	if err != nil {
		t.Fatal(err)
	}
	kept := thole.Projection[[]string]{
		Name:  "test.secrets",
		Apply: func(s []string, e thole.Event) ([]string, error) { return append(slices.Clip(s), string(e.Data)), nil },
		Size:  func([]string) int { return 1 },
	}
	read := func() []string {
		t.Helper()
		got, err := kept.At(t.Context(), sp, "app/s", res.Last, func(ctx context.Context) (all []string, err error) {
			for e, err := range sp.Events(ctx, thole.ReadQuery{Stream: "app/s"}) {
				if err != nil {
					return nil, err
				}
				if e.Data != nil {
					all = append(all, string(e.Data))
				}
			}
			return all, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := read(); len(got) != 1 {
		t.Fatalf("got %q", got)
	}
	if err := sp.Purge(t.Context(), thole.Purge{Events: []thole.Position{res.Last}}); err == nil {
		t.Fatal("the purge did not fail")
	}
	if got := read(); len(got) != 0 {
		t.Errorf("after the purge: got %q", got)
	}
}

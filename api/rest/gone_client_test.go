package rest_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
)

// leaving is a backend whose client disconnects when a purge begins.
type leaving struct {
	*memstore.Store
	leave context.CancelFunc
}

func (b *leaving) Purge(ctx context.Context, space string, p thole.Purge) error {
	b.leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.Store.Purge(ctx, space, p)
}

func TestASpaceIsDeletedThoughTheClientGoesAway(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	store, err := thole.Open(t.Context(), &leaving{memstore.New(), leave}, &thole.Options{Concepts: rest.Concepts()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	sp := store.Space("user:1")
	if _, err := sp.Commit(t.Context(), thole.Commit{Writes: []thole.Write{{Key: "app/x", Value: []byte(`1`)}}}); err != nil {
		t.Fatal(err)
	}
	api := rest.New(store, nil)
	defer api.Drain()
	r := httptest.NewRequestWithContext(ctx, "DELETE", "/v1/spaces/user:1", nil)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	if head, err := sp.Head(t.Context()); err != nil || !head.Last.IsZero() {
		t.Errorf("after DELETE of a client that went away (%d): got head %v, %v, want none", w.Code, head.Last, err)
	}
}

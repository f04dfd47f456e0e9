package thread_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/state/thread"
)

// brittle fails every commit after the given number.
type brittle struct {
	*memstore.Store
	left int
}

func (b *brittle) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	if b.left--; b.left < 0 {
		return nil, errors.New("out of order")
	}
	return b.Store.Commit(ctx, batch)
}

func TestARepeatedDestroyFinishesTheFirst(t *testing.T) {
	b := &brittle{Store: memstore.New(), left: math.MaxInt}
	s, err := thole.Open(t.Context(), b, &thole.Options{Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ts := thread.In(s.Space("project:shop"))
	parent, err := ts.Create(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	child, err := ts.Create(t.Context(), &thread.CreateOptions{Parent: parent.ID, Visibility: thread.Private})
	if err != nil {
		t.Fatal(err)
	}
	destroy := func() error {
		return ts.Destroy(thole.WithIdempotencyKey(t.Context(), "k", "f"), parent.ID, nil)
	}
	b.left = 1 // between the parent and its child
	if err := destroy(); err == nil {
		t.Fatal("destroy: got no error")
	}
	b.left = math.MaxInt
	if err := destroy(); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, err := ts.Get(t.Context(), child.ID); !errors.Is(err, thole.ErrNotFound) {
		t.Errorf("sub-agent's thread: got %v, want ErrNotFound", err)
	}
}

func TestATTLThatIsTooLongIsRefused(t *testing.T) {
	s, err := thole.Open(t.Context(), memstore.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ts := thread.In(s.Space("project:shop"))
	th, err := ts.Create(t.Context(), &thread.CreateOptions{TTL: 18_446_744_075})
	if !errors.Is(err, thole.ErrInvalid) {
		_, getErr := ts.Get(t.Context(), th.ID)
		t.Errorf("got %v, and then %v; want ErrInvalid", err, getErr)
	}
}

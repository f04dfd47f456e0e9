package thread_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

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
	s, err := thole.Open(t.Context(), b, &thole.Options{Concepts: []*thole.Concept{thread.Concept}, Sweep: -1})
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

func TestATTLIsKeptInWholeSeconds(t *testing.T) {
	s, err := thole.Open(t.Context(), memstore.New(), &thole.Options{Concepts: []*thole.Concept{thread.Concept}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ts := thread.In(s.Space("project:shop"))
	th, err := ts.Create(t.Context(), &thread.CreateOptions{TTL: 1500 * time.Millisecond})
	if err != nil || th.TTL != 2 {
		t.Errorf("got %+v, %v; want a ttl of 2", th, err)
	}
	if _, err := ts.Create(t.Context(), &thread.CreateOptions{TTL: -1}); !errors.Is(err, thole.ErrInvalid) {
		t.Errorf("negative: got %v, want ErrInvalid", err)
	}
}

func TestATTLThatIsTooLongIsRefused(t *testing.T) {
	s, err := thole.Open(t.Context(), memstore.New(), &thole.Options{Concepts: []*thole.Concept{thread.Concept}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ts := thread.In(s.Space("project:shop"))
	if _, err := ts.Create(t.Context(), &thread.CreateOptions{TTL: 101 * 365 * 24 * time.Hour}); !errors.Is(err, thole.ErrInvalid) {
		t.Errorf("create: got %v, want ErrInvalid", err)
	}
	th, err := ts.Create(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	seconds := int64(18_446_744_075) // in 64 bits of nanoseconds this would overflow to a short time
	if _, err := ts.Patch(t.Context(), th.ID, thread.Patch{TTL: &seconds}, nil); !errors.Is(err, thole.ErrInvalid) {
		t.Errorf("patch: got %v, want ErrInvalid", err)
	}
}

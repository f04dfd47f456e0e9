package thole_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
)

// replaced is a backend whose spaces are changed by something other than commits.
type replaced struct {
	journal.Backend
	now atomic.Pointer[memstore.Store]
}

func newReplaced() *replaced {
	r := &replaced{}
	r.now.Store(memstore.New())
	r.Backend = r.now.Load()
	return r
}

func (r *replaced) Heads(ctx context.Context, spaces ...string) ([]thole.Head, error) {
	return r.now.Load().Heads(ctx, spaces...)
}

func (r *replaced) Read(ctx context.Context, space string, q thole.ReadQuery) (thole.Page, error) {
	return r.now.Load().Read(ctx, space, q)
}

func (r *replaced) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	return r.now.Load().Commit(ctx, batch)
}

// adopt replaces a space by one with one more event, in an epoch that was adopted or
// just began.
func (r *replaced) adopt(t *testing.T, sp *thole.Space, adopted bool) {
	t.Helper()
	ctx := context.Background()
	head, err := sp.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	page, err := r.Read(ctx, sp.Name(), thole.ReadQuery{})
	if err != nil {
		t.Fatal(err)
	}
	at := thole.Position{Epoch: journal.NewEpoch(len(head.Epochs) + 1), Seq: head.Last.Seq + 1}
	head.Last = at
	head.Epochs = append(head.Epochs, journal.Epoch{Name: at.Epoch, First: at.Seq, Last: at.Seq, Adopted: adopted})
	event := thole.Event{Position: at, Stream: "space", Type: "space.adopted", Data: []byte(`"adopted"`)}
	other := memstore.New()
	if err := other.Load(ctx, sp.Name(), journal.Chunk{Head: head, Events: append(page.Events, event), Done: true}); err != nil {
		t.Fatal(err)
	}
	r.now.Store(other)
}

func TestAChangeThatIsAdoptedTrimsWatchesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newReplaced()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s, err := thole.Open(ctx, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sp := s.Space("project:p")
		commitNumbers(t, sp, 1, 2)
		head, err := sp.Head(ctx)
		if err != nil {
			t.Fatal(err)
		}
		heard := make(chan string, 9)
		unsubscribe, err := sp.Subscribe(ctx, nil, func(d *thole.Delivery) { heard <- string(d.Data) })
		if err != nil {
			t.Fatal(err)
		}
		defer unsubscribe()
		live, behind := watch(t, sp, nil), watch(t, sp, &thole.WatchOptions{Oldest: true})
		far := watch(t, sp, &thole.WatchOptions{After: head.Oldest})
		commitNumbers(t, sp, 3, 3)
		if got, err := collect(ctx, live, 1); err != nil || got != "3" {
			t.Fatalf("live: got %s, %v", got, err)
		}
		if got, err := collect(ctx, far, 2); err != nil || got != "2 3" {
			t.Fatalf("from the first on: got %s, %v", got, err)
		}
		late := watch(t, sp, &thole.WatchOptions{After: head.Oldest}) // this watch reads from the journal
		b.adopt(t, sp, true)
		if got, err := late.Next(ctx); !errors.Is(err, thole.ErrTrimmed) { // before anything polls
			t.Errorf("a watch that is behind: got %v, %v; want ErrTrimmed", got, err)
		}
		if got, err := collect(ctx, late, 3); err != nil || got != `2 3 "adopted"` {
			t.Errorf("a watch that was behind: got %s, %v", got, err)
		}
		commitNumbers(t, sp, 4, 4)
		synctest.Wait()
		after := watch(t, sp, &thole.WatchOptions{After: head.Oldest})
		for name, c := range map[string]struct {
			w       *thole.Watch
			trimmed bool
			want    string
		}{
			"live":              {live, true, `"adopted" 4`},
			"caught up":         {far, true, `"adopted" 4`},
			"that read nothing": {behind, false, `1 2 3 "adopted" 4`}, // it has read nothing that could be wrong
			"opened afterwards": {after, false, `2 3 "adopted" 4`},
		} {
			if c.trimmed {
				if _, err := c.w.Next(ctx); !errors.Is(err, thole.ErrTrimmed) {
					t.Errorf("a watch %s: got %v, want ErrTrimmed", name, err)
				}
			}
			n := map[bool]int{true: 2, false: 5}[c.trimmed]
			if c.w == after {
				n = 4
			}
			if got, err := collect(ctx, c.w, n); err != nil || got != c.want {
				t.Errorf("a watch %s: got %s, %v; want %s", name, got, err, c.want)
			}
		}
		for _, want := range []string{"3", `"adopted"`, "4"} {
			if got := <-heard; got != want {
				t.Errorf("the subscription: got %s, want %s", got, want)
			}
		}

		b.adopt(t, sp, false)
		commitNumbers(t, sp, 5, 5)
		if got, err := collect(ctx, live, 2); err != nil || got != `"adopted" 5` {
			t.Errorf("over an epoch that was not adopted: got %s, %v", got, err)
		}
	})
}

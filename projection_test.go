package thole_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

// tail is the last ten numbers of a stream, kept in memory.
type tail struct {
	kept  thole.Projection[[]int]
	loads int
}

func newTail() *tail {
	return &tail{kept: thole.Projection[[]int]{
		Name: "test.tail",
		Apply: func(s []int, e thole.Event) ([]int, error) {
			var n int
			err := e.As(&n)
			s = append(slices.Clone(s), n)
			return s[max(0, len(s)-10):], err
		},
		Size: func(s []int) int { return 8 * len(s) },
	}}
}

func (tl *tail) at(ctx context.Context, sp *thole.Space, stream string, at thole.Position) ([]int, error) {
	return tl.kept.At(ctx, sp, stream, at, func(ctx context.Context) ([]int, error) {
		tl.loads++
		end := at
		end.Seq++
		page, err := sp.Read(ctx, thole.ReadQuery{Stream: stream, Before: end, Backward: true, Limit: 10})
		var out []int
		for _, e := range page.Events {
			var n int
			if err := e.As(&n); err != nil {
				return nil, err
			}
			out = append(out, n)
		}
		slices.Reverse(out)
		return out, err
	})
}

func lastTen(n int) []int {
	var out []int
	for i := max(0, n-10); i < n; i++ {
		out = append(out, i)
	}
	return out
}

// appendNumbers commits n events to stream, with other events in between, and returns
// the positions of its own.
func appendNumbers(t testing.TB, sp *thole.Space, stream string, from, n int) []thole.Position {
	t.Helper()
	var at []thole.Position
	for i := from; i < from+n; i++ {
		res, err := sp.Commit(context.Background(), thole.Commit{Events: []thole.Event{
			{Stream: stream, Type: "number.added", Data: fmt.Append(nil, i)},
			{Stream: "app/other", Type: "noise.made"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, res.First)
	}
	return at
}

func TestAProjectionIsRolledForwardNotLoadedAgain(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	tl := newTail()
	at := appendNumbers(t, sp, "app/a", 0, 30)
	for i, p := range at {
		got, err := tl.at(t.Context(), sp, "app/a", p)
		if want := lastTen(i + 1); err != nil || !slices.Equal(got, want) {
			t.Errorf("at %d: got %v, %v; want %v", i, got, err, want)
		}
	}
	if tl.loads != 1 {
		t.Errorf("loaded %d times, want 1", tl.loads)
	}
	// An older version is loaded and does not replace the newer one in the cache.
	if got, err := tl.at(t.Context(), sp, "app/a", at[4]); err != nil || !slices.Equal(got, lastTen(5)) {
		t.Errorf("in the past: got %v, %v", got, err)
	}
	if _, err := tl.at(t.Context(), sp, "app/a", at[29]); err != nil || tl.loads != 2 {
		t.Errorf("loaded %d times, want 2 (%v)", tl.loads, err)
	}
	// If the gap is too wide, the value is loaded.
	more := appendNumbers(t, sp, "app/a", 30, 400)
	if got, err := tl.at(t.Context(), sp, "app/a", more[399]); err != nil || !slices.Equal(got, lastTen(430)) || tl.loads != 3 {
		t.Errorf("after a gap: got %v, %v after %d loads", got, err, tl.loads)
	}
}

func TestAProjectionIsForgottenWithItsPast(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	tl := newTail()
	at := appendNumbers(t, sp, "app/a", 0, 3)
	if _, err := tl.at(t.Context(), sp, "app/a", at[2]); err != nil {
		t.Fatal(err)
	}
	if err := sp.Purge(t.Context(), thole.Purge{Streams: []string{"app/a"}}); err != nil {
		t.Fatal(err)
	}
	if got, err := tl.at(t.Context(), sp, "app/a", at[2]); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v; want nothing", got, err)
	}
	broken := errors.New("broken")
	_, err := tl.kept.At(t.Context(), sp, "app/b", at[2], func(context.Context) ([]int, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want load's error", err)
	}
}

func TestProjectionsAreBounded(t *testing.T) {
	sp := open(t, &thole.Options{ProjectionBytes: 20 * 600}).Space("project:shop")
	tl := newTail()
	at := map[string]thole.Position{}
	for i := range 100 {
		stream := fmt.Sprint("app/", i)
		at[stream] = appendNumbers(t, sp, stream, 0, 1)[0]
		if _, err := tl.at(t.Context(), sp, stream, at[stream]); err != nil {
			t.Fatal(err)
		}
	}
	tl.loads = 0
	for i := 99; i >= 0; i-- {
		stream := fmt.Sprint("app/", i)
		if _, err := tl.at(t.Context(), sp, stream, at[stream]); err != nil {
			t.Fatal(err)
		}
	}
	if tl.loads < 75 || tl.loads > 85 {
		t.Errorf("%d of 100 were forgotten, want about 80", tl.loads)
	}
}

func TestAProjectionNeverGoesBehindAnAcknowledgement(t *testing.T) {
	// Each of two Stores makes the other's cache stale.
	backend := memstore.New()
	var spaces [2]*thole.Space
	for i := range spaces {
		spaces[i] = openOn(t, &faults{Backend: backend, shared: i > 0}, nil).Space("project:shop")
	}
	var tails [2]*tail
	for i := range tails {
		tails[i] = newTail()
	}
	var acked sync.Mutex
	n := 0
	var wg sync.WaitGroup
	for i, sp := range spaces {
		wg.Go(func() {
			for range 100 {
				acked.Lock()
				appendNumbers(t, sp, "app/a", n, 1)
				n++
				least := n
				acked.Unlock()
				page, err := sp.Read(t.Context(), thole.ReadQuery{Stream: "app/a", Backward: true, Limit: 1})
				if err != nil {
					t.Error(err)
					return
				}
				got, err := tails[i].at(t.Context(), sp, "app/a", page.Events[0].Position)
				if err != nil || got[len(got)-1] < least-1 {
					t.Errorf("after number %d: got %v, %v", least-1, got, err)
				}
			}
		})
	}
	wg.Wait()
}

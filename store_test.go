package thole_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

func open(t *testing.T, opts *thole.Options) *thole.Store {
	t.Helper()
	s, err := thole.Open(t.Context(), memstore.New(), with(opts))
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

type counter struct{ N int }

func increment(ctx context.Context, sp *thole.Space) error {
	_, err := sp.Update(ctx, func(tx *thole.Tx) error {
		var c counter
		if _, err := tx.Load("app/count", &c); err != nil {
			return err
		}
		c.N++
		tx.Put("app/count", c, nil)
		tx.Emit("app/count", "count.changed", c)
		return nil
	})
	return err
}

func TestContendedUpdatesLoseNothing(t *testing.T) {
	s := open(t, nil)
	sp := s.Space("project:shop")
	const workers, each = 32, 50
	w, err := sp.Watch(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				if err := increment(t.Context(), sp); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var c counter
	rec, err := sp.Get(t.Context(), "app/count")
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.As(&c); err != nil || c.N != workers*each {
		t.Errorf("got %d, want %d (err %v)", c.N, workers*each, err)
	}
	for got := 0; got < workers*each; {
		ds, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			got++
			var c counter
			if err := d.As(&c); err != nil || c.N != got {
				t.Fatalf("delivery %d holds %d", got, c.N)
			}
		}
	}
}

func TestRepeatUnderIdempotencyKeyCommitsOnce(t *testing.T) {
	s := open(t, nil)
	sp := s.Space("project:shop")
	for i := range 3 {
		ctx := thole.WithIdempotencyKey(t.Context(), "k1", "f")
		if err := increment(ctx, sp); err != nil {
			t.Fatalf("try %d: %v", i, err)
		}
	}
	rec, _ := sp.Get(t.Context(), "app/count")
	if got, want := string(rec.Value), `{"N":1}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	err := increment(thole.WithIdempotencyKey(t.Context(), "k1", "other"), sp)
	if !errors.Is(err, thole.ErrInvalid) {
		t.Errorf("reuse of a key: got %v, want ErrInvalid", err)
	}
}

func TestSlowWatcherFallsBackToTheJournal(t *testing.T) {
	s := open(t, &thole.Options{RingBytes: 1000})
	sp := s.Space("project:shop")
	w, err := sp.Watch(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const n = 700
	for i := range n {
		_, err := sp.Commit(t.Context(), thole.Commit{Events: []thole.Event{{Stream: "app/x", Type: "x.y", Data: fmt.Append(nil, i)}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for got := 0; got < n; {
		ds, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			if string(d.Data) != fmt.Sprint(got) {
				t.Fatalf("delivery %d is %s", got, d.Data)
			}
			got++
		}
	}
}

func TestExpiryOfANotifyRecordIsAnEvent(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	s := open(t, &thole.Options{Now: clock, Sweep: -1})
	sp := s.Space("project:shop")
	_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
		tx.Put("thing/a", 1, &thole.WriteOptions{Expires: tx.Now().Add(time.Minute), Notify: true})
		tx.Put("thing/a/child", 2, nil)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	now = now.Add(2 * time.Minute)
	mu.Unlock()
	// A write that touches it ends it first.
	_, err = sp.Update(t.Context(), func(tx *thole.Tx) error {
		r, err := tx.Get("thing/a")
		if err != nil || r.Exists() {
			return fmt.Errorf("got %v, %v; want absent", r, err)
		}
		tx.Put("thing/a", 3, nil)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	page, err := sp.Read(t.Context(), thole.ReadQuery{Stream: "thing/a"})
	if err != nil || len(page.Events) != 1 {
		t.Fatalf("got %d events (%v), want 1", len(page.Events), err)
	}
	if got, want := string(page.Events[0].Data), `{"key":"thing/a","value":1,"below":{"child":2}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLeaseFencesALateHolder(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := open(t, &thole.Options{Now: func() time.Time { return now }, Sweep: -1})
	sp := s.Space("project:shop")
	acquire := func(holder string) (thole.Fence, error) {
		var f thole.Fence
		res, err := sp.Update(t.Context(), func(tx *thole.Tx) (err error) { f, err = tx.Acquire("job", holder, time.Minute); return err })
		return f.At(res), err
	}
	first, err := acquire("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquire("b"); !errors.Is(err, thole.ErrConflict) {
		t.Fatalf("b acquired a live lease: %v", err)
	}
	now = now.Add(2 * time.Minute)
	if err := increment(t.Context(), sp.Under(first)); err != nil {
		t.Errorf("late but unreplaced holder: %v", err)
	}
	if _, err := acquire("b"); err != nil {
		t.Fatalf("b could not steal a dead lease: %v", err)
	}
	if err := increment(t.Context(), sp.Under(first)); !errors.Is(err, thole.ErrFenced) {
		t.Errorf("replaced holder: got %v, want ErrFenced", err)
	}
}

package thole_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

// putFor puts a record that lives for ttl.
func putFor(t *testing.T, sp *thole.Space, key string, value any, ttl time.Duration, notify bool) {
	t.Helper()
	_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
		tx.Put(key, value, &thole.WriteOptions{Expires: tx.Now().Add(ttl), Notify: notify})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// left counts the records that the backend still has under prefix.
func left(t *testing.T, sp *thole.Space, prefix string) int {
	t.Helper()
	recs, err := sp.Store().Backend().List(t.Context(), sp.Name(), thole.ListQuery{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	return len(recs)
}

func TestAnExpiredRecordIsAbsentAtOnceAndSweptSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := open(t, nil).Space("user:1")
		putFor(t, sp, "app/a", 1, time.Minute, false)
		time.Sleep(time.Minute - time.Microsecond)
		if r, err := sp.Get(t.Context(), "app/a"); err != nil || !r.Exists() {
			t.Errorf("just before: got %v, %v; want the record", r, err)
		}
		time.Sleep(time.Microsecond)
		if r, err := sp.Get(t.Context(), "app/a"); err != nil || r.Exists() {
			t.Errorf("on time: got %v, %v; want none", r, err)
		}
		if rs, err := sp.List(t.Context(), thole.ListQuery{Prefix: "app/"}); err != nil || len(rs) != 0 {
			t.Errorf("list: got %v, %v; want none", rs, err)
		}
		_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
			if r, err := tx.Get("app/a"); err != nil || r.Exists() {
				t.Errorf("in an update: got %v, %v; want none", r, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := left(t, sp, "app/"); n != 0 {
			t.Errorf("%d records are left in the backend", n)
		}
		if page, err := sp.Read(t.Context(), thole.ReadQuery{}); err != nil || len(page.Events) != 0 {
			t.Errorf("got events %v, %v; want none", page.Events, err)
		}
	})
}

func TestOfTwoSweepersOneEndsARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, nil, false)
		const n = 30
		for i := range n {
			putFor(t, []*thole.Space{a, b}[i%2], fmt.Sprintf("thing/%d", i), i, time.Duration(i)*time.Second, true)
		}
		time.Sleep(n*time.Second + 5*time.Second)
		synctest.Wait()
		if got := left(t, a, "thing/"); got != 0 {
			t.Errorf("%d records are left", got)
		}
		for i := range n {
			if got := types(t, a, fmt.Sprintf("thing/%d", i)); got != "thing.expired" {
				t.Errorf("thing %d: got %q, want one thing.expired", i, got)
			}
		}
		if got := left(t, a.Store().Space("global"), "sweeper/"); got != 0 {
			t.Errorf("%d records of the sweeper's lease are left", got)
		}
	})
}

func TestOneProcessSweepsAtATimeHoweverLongItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var active, most, ended atomic.Int32
		a, _ := pair(t, with(nil, ending("slow", func(ctx context.Context, sp *thole.Space, rec thole.Record) error {
			if n := active.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer active.Add(-1)
			ended.Add(1)
			time.Sleep(20 * time.Second)
			_, err := sp.Commit(ctx, thole.Commit{Writes: []thole.Write{{Key: rec.Key}}})
			return err
		})), false)
		for i := range 5 {
			putFor(t, a, fmt.Sprintf("slow/%d", i), i, time.Second, false)
		}
		time.Sleep(5 * time.Minute)
		if got := left(t, a, "slow/"); got != 0 || ended.Load() != 5 || most.Load() != 1 {
			t.Errorf("%d records are left, %d were ended, by %d at a time; want 0, 5, by 1", got, ended.Load(), most.Load())
		}
	})
}

func TestASweeperThatDiedIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := open(t, nil).Space("user:1")
		// A process died while it swept, and left the lease.
		_, err := sp.Store().Space("global").Update(t.Context(), func(tx *thole.Tx) error {
			_, err := tx.Acquire("sweeper/thing", "dead", 10*time.Second)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		putFor(t, sp, "thing/1", 1, time.Second, true)
		time.Sleep(9 * time.Second)
		if got := types(t, sp, "thing/1"); got != "" {
			t.Errorf("while another holds the sweeper's lease: got %q, want nothing", got)
		}
		time.Sleep(3 * time.Second)
		if got := types(t, sp, "thing/1"); got != "thing.expired" {
			t.Errorf("after its time: got %q, want thing.expired", got)
		}
	})
}

func TestAnIdleStoreWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faults{Backend: memstore.New()}
		sp := openOn(t, f, nil).Space("user:1")
		putFor(t, sp, "app/a", 1, time.Hour, false)
		time.Sleep(30 * time.Minute)
		if got := len(f.commits()); got != 1 {
			t.Errorf("got %d batches, want 1", got)
		}
	})
}

func TestASweepThatFailsIsTriedLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		bad := ending("bad", func(context.Context, *thole.Space, thole.Record) error { tries.Add(1); return errors.New("broken") })
		sp := openOn(t, &faults{Backend: memstore.New()}, with(nil, bad)).Space("user:1")
		putFor(t, sp, "bad/1", 1, time.Second, true)
		time.Sleep(time.Hour)
		if n := tries.Load(); n < 60 || n > 70 {
			t.Errorf("tried %d times in an hour, want every minute", n)
		}
		putFor(t, sp, "thing/1", 1, time.Second, true)
		time.Sleep(2*time.Second + time.Millisecond)
		if got := types(t, sp, "thing/1"); got != "thing.expired" {
			t.Errorf("got %q, want thing.expired", got)
		}
	})
}

func TestAConceptEndsItsOwnRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := ending("job", func(ctx context.Context, sp *thole.Space, rec thole.Record) error {
			_, err := sp.Update(ctx, func(tx *thole.Tx) error {
				now, err := tx.Get(rec.Key)
				if err != nil || now.Version != rec.Version {
					return err
				}
				tx.Delete(rec.Key)
				tx.Emit(rec.Key, "job.ended", nil)
				return nil
			})
			return err
		})
		s := open(t, with(&thole.Options{Sweep: -1}, job))
		sp := s.Space("user:1")
		putFor(t, sp, "job/1", 1, time.Second, true)
		time.Sleep(time.Minute)
		// All touch it at once, so that they contend for ending it.
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
					var n int
					_, err := tx.Load("job/1", &n)
					tx.Put("job/1", n+1, nil)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if r, err := sp.Get(t.Context(), "job/1"); err != nil || string(r.Value) != "16" {
			t.Errorf("got %s, %v; want 16", r.Value, err)
		}
		page, err := sp.Read(t.Context(), thole.ReadQuery{Stream: "job/1"})
		if err != nil || len(page.Events) != 1 || page.Events[0].Type != "job.ended" {
			t.Errorf("got %v, %v; want one job.ended", page.Events, err)
		}
	})
}

func TestAnExpirerThatFailsDoesNotKeepOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		s := open(t, with(&thole.Options{Sweep: -1},
			ending("bad", func(context.Context, *thole.Space, thole.Record) error { return broken }),
			ending("lazy", func(context.Context, *thole.Space, thole.Record) error { return nil })))
		sp := s.Space("user:1")
		for _, key := range []string{"bad/1", "lazy/1", "thing/1"} {
			putFor(t, sp, key, 1, time.Second, true)
		}
		time.Sleep(time.Minute)
		if err := s.Sweep(t.Context()); !errors.Is(err, broken) {
			t.Errorf("got %v, want the expirer's error", err)
		}
		if got := types(t, sp, "thing/1"); got != "thing.expired" {
			t.Errorf("got %q, want thing.expired", got)
		}
		for key, want := range map[string]error{"bad/1": broken, "lazy/1": thole.ErrConflict} {
			_, err := sp.Commit(t.Context(), thole.Commit{Writes: []thole.Write{{Key: key, Value: json.RawMessage("2")}}})
			if !errors.Is(err, want) {
				t.Errorf("writing %s: got %v, want %v", key, err, want)
			}
		}
	})
}

func TestWhatIsBelowAnExpiredRecordGoesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, &thole.Options{Sweep: -1})
		sp := s.Space("user:1")
		big := strings.Repeat("<", 400<<10)
		putFor(t, sp, "thing/1", big, time.Minute, true)
		for i := range 450 {
			putFor(t, sp, fmt.Sprintf("thing/1/%03d", i), strings.Repeat("x", 2000), time.Hour, i == 7)
		}
		putFor(t, sp, "thing/10", 1, time.Hour, false)
		time.Sleep(2 * time.Minute)
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := left(t, sp, "thing/"); got != 1 {
			t.Errorf("%d records are left, want the other thing", got)
		}
		page, err := sp.Read(t.Context(), thole.ReadQuery{Stream: "thing/1"})
		if err != nil || len(page.Events) != 1 {
			t.Fatalf("got %d events, %v; want 1", len(page.Events), err)
		}
		var e thole.Expired
		if err := page.Events[0].As(&e); err != nil || len(e.Value) != len(big)+2 || len(e.Below) == 0 {
			t.Errorf("got %d bytes and %d below, %v; want the final state", len(e.Value), len(e.Below), err)
		}
	})
}

// wall is a clock that a test sets.
type wall struct {
	mu sync.Mutex
	t  time.Time
}

func (w *wall) now() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.t }

func (w *wall) add(d time.Duration) { w.mu.Lock(); defer w.mu.Unlock(); w.t = w.t.Add(d) }

func TestAClockSetBackNeitherStopsTimeNorTurnsIt(t *testing.T) {
	w := &wall{t: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	s := open(t, &thole.Options{Now: w.now, Sweep: -1})
	sp := s.Space("user:1")
	acquire := func(holder string) error {
		_, err := sp.Update(t.Context(), func(tx *thole.Tx) error { _, err := tx.Acquire("job", holder, time.Minute); return err })
		return err
	}
	if err := acquire("a"); err != nil {
		t.Fatal(err)
	}
	last := s.Now()
	w.add(-time.Hour)
	for range 61 {
		now := s.Now()
		if now.Before(last) {
			t.Errorf("time went back from %v to %v", last, now)
		}
		last = now
		commitNumbers(t, sp, 1, 1)
		w.add(time.Second)
	}
	if err := acquire("b"); err != nil {
		t.Errorf("a lease outlived its ttl: %v", err)
	}
	page, err := sp.Read(t.Context(), thole.ReadQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range page.Events[1:] {
		if e.Time.Before(page.Events[i].Time) {
			t.Errorf("event %d is from before event %d", i+1, i)
		}
	}
}

// TestALeaseFromBeforeTheClockWasSetBackEnds restarts the store with a clock that is an
// hour behind: the store's time stands still for an hour, and the lease of a dead
// holder ends a TTL after the first read of it.
func TestALeaseFromBeforeTheClockWasSetBackEnds(t *testing.T) {
	backend := memstore.New()
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	w := &wall{t: start}
	s := openOn(t, &faults{Backend: backend, shared: true}, &thole.Options{Now: w.now, Sweep: -1})
	_, err := s.Space("user:1").Update(t.Context(), func(tx *thole.Tx) error {
		tx.Emit("app/x", "x.y", nil)
		_, err := tx.Acquire("job", "a", time.Minute)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.add(-time.Hour)
	s = openOn(t, backend, &thole.Options{Now: w.now, Sweep: -1})
	if got, most := s.Now(), w.now().Add(5*time.Second); got.After(most) {
		t.Errorf("now is %v, more than 5 s ahead of the machine's clock", got)
	}
	acquire := func() error {
		_, err := s.Space("user:1").Update(t.Context(), func(tx *thole.Tx) error { _, err := tx.Acquire("job", "b", time.Minute); return err })
		return err
	}
	if err := acquire(); !errors.Is(err, thole.ErrConflict) {
		t.Errorf("at the first read: got %v, want ErrConflict", err)
	}
	w.add(time.Minute)
	if err := acquire(); err != nil {
		t.Errorf("a lease outlived its ttl: %v", err)
	}
}

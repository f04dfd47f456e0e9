package thole_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/journal"
)

// dawn is the earliest time that a store accepts.
var dawn = time.Time{}.Add(time.Microsecond)

func TestWhatExpiredAtTheBeginningOfTimeEnds(t *testing.T) {
	for name, open := range map[string]func() (journal.Backend, error){
		"memory": func() (journal.Backend, error) { return memstore.New(), nil },
		"sqlite": func() (journal.Backend, error) { return sqlitestore.Open(t.Context(), t.TempDir()+"/thole.db", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			b, err := open()
			if err != nil {
				t.Fatal(err)
			}
			sp := openOn(t, b, &thole.Options{Sweep: -1}).Space("user:1")
			// An earlier version accepted it.
			for _, key := range []string{"app/swept", "app/touched"} {
				_, err = b.Commit(t.Context(), []thole.Commit{{Space: "user:1", Now: time.Now(), Actor: "user:eve", Writes: []thole.Write{
					{Key: key, Value: json.RawMessage("1"), Expires: dawn, Notify: true}}}})
				if err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := sp.Commit(ctx, thole.Commit{Writes: []thole.Write{{Key: "app/touched", Value: json.RawMessage("2")}}}); err != nil {
				t.Errorf("a write of it: %v", err)
			}
			if err := sp.Store().Sweep(ctx); err != nil {
				t.Errorf("sweep: %v", err)
			}
			for _, key := range []string{"app/swept", "app/touched"} {
				if got := types(t, sp, key); got != "app.expired" {
					t.Errorf("%s: got %q, want one app.expired", key, got)
				}
			}
			if got := left(t, sp, "app/"); got != 1 {
				t.Errorf("%d records are left, want that which was written", got)
			}
		})
	}
}

func TestNothingIsMadeToExpireBeforeClocksBegan(t *testing.T) {
	s := open(t, nil)
	for _, at := range []time.Time{dawn, time.Time{}.Add(1), time.Unix(0, -1), time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)} {
		w := thole.Write{Key: "app/x", Value: json.RawMessage("1"), Expires: at}
		_, err := s.Space("user:1").Commit(t.Context(), thole.Commit{Writes: []thole.Write{w}})
		if !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("commit, %v: got %v, want ErrInvalid", at, err)
		}
		_, err = s.Apply(t.Context(), []thole.Commit{{Space: "user:1", Now: s.Now(), Writes: []thole.Write{w}}})
		if !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("apply, %v: got %v, want ErrInvalid", at, err)
		}
		from := thole.Position{Epoch: "0001aaaaaaaa", Seq: 1}
		err = s.Load(t.Context(), "user:2", journal.Chunk{
			Head:    thole.Head{Space: "user:2", Oldest: from, Last: from, Epochs: []journal.Epoch{{Name: from.Epoch, First: 1, Last: 1}}},
			Records: []thole.Record{{Key: "app/x", Value: w.Value, Expires: at, Updated: s.Now(), Version: from}},
		})
		if !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("import, %v: got %v, want ErrInvalid", at, err)
		}
	}
	if got := left(t, s.Space("user:1"), "app/"); got != 0 {
		t.Errorf("%d records are there", got)
	}
}

// An expirer that uses a handle of its own finds its record expired.
func TestAnExpirerThatLeavesItsHandleFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		touch := func(ctx context.Context, sp *thole.Space, key string) error {
			_, err := sp.Store().Space(sp.Name()).Commit(ctx, thole.Commit{Writes: []thole.Write{{Key: key}}})
			return err
		}
		s := open(t, with(nil,
			ending("bad", func(ctx context.Context, sp *thole.Space, rec thole.Record) error {
				tries.Add(1)
				return touch(ctx, sp, rec.Key)
			}),
			// Two records whose expirers end each other.
			ending("left", func(ctx context.Context, sp *thole.Space, _ thole.Record) error { return touch(ctx, sp, "right/1") }),
			ending("right", func(ctx context.Context, sp *thole.Space, _ thole.Record) error { return touch(ctx, sp, "left/1") }),
		))
		sp := s.Space("user:1")
		for _, key := range []string{"bad/1", "left/1", "right/1", "thing/1"} {
			putFor(t, sp, key, 1, time.Second, true)
		}
		time.Sleep(2*time.Second + time.Millisecond)
		if got := types(t, sp, "thing/1"); got != "thing.expired" {
			t.Errorf("beside it: got %q, want thing.expired", got)
		}
		time.Sleep(time.Hour)
		if n := tries.Load(); n < 60 || n > 70 {
			t.Errorf("tried %d times in an hour, want every minute", n)
		}
		for _, key := range []string{"bad/1", "left/1"} {
			if err := touch(t.Context(), sp, key); err == nil || !strings.Contains(err.Error(), "is being ended already") {
				t.Errorf("a write of %s: got %v, want the reason", key, err)
			}
		}
	})
}

func TestAnEndThatTakesForEverDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := make(chan struct{})
		s := open(t, with(nil,
			ending("slow", func(ctx context.Context, _ *thole.Space, _ thole.Record) error { <-ctx.Done(); return ctx.Err() }),
			ending("deaf", func(context.Context, *thole.Space, thole.Record) error { <-deaf; return nil }),
		))
		for _, key := range []string{"slow/1", "slow/2", "deaf/1"} {
			putFor(t, s.Space("user:1"), key, 1, time.Second, true)
		}
		time.Sleep(10 * time.Minute)
		late := time.Duration(0)
		for range 100 {
			putFor(t, s.Space("user:2"), "thing/1", 1, time.Second, false)
			time.Sleep(2 * time.Second)
			for ; left(t, s.Space("user:2"), "thing/") > 0; late += time.Second {
				time.Sleep(time.Second)
			}
		}
		if late > time.Minute {
			t.Errorf("what expired elsewhere was late by %v in all, in 100 times", late)
		}
		close(deaf)
	})
}

// slowly is a backend that takes a second for each commit.
type slowly struct{ journal.Backend }

func (b slowly) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	<-time.After(time.Second)
	return b.Backend.Commit(ctx, batch)
}

func TestAnEndWithManyRecordsBelowContinuesInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := openOn(t, slowly{memstore.New()}, nil).Space("user:1")
		const n = 100 * 120 // more commits than a try has time for
		for i := 0; i < n; i += 200 {
			_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
				for j := range 200 {
					tx.Put(fmt.Sprintf("app/1/%06d", i+j), 1, nil)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		putFor(t, sp, "app/1", 1, time.Second, true)
		time.Sleep(time.Hour)
		if n := left(t, sp, ""); n != 0 {
			t.Errorf("%d records are left", n)
		}
		if got := types(t, sp, "app/1"); got != "app.expired" {
			t.Errorf("got %q, want one app.expired", got)
		}
	})
}

// An end that takes longer than the sweep waits continues in the background, once, and
// stops when the Store closes.
func TestASlowEndCompletesInTheBackgroundOrEndsWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := map[string]int{}
		var mu sync.Mutex
		s := open(t, with(nil, ending("slow", func(ctx context.Context, sp *thole.Space, rec thole.Record) error {
			mu.Lock()
			begun[rec.Key]++
			mu.Unlock()
			wait := 40 * time.Second
			if rec.Key == "slow/ever" {
				wait = 24 * time.Hour
			}
			select {
			case <-time.After(wait):
				return thole.DeleteExpired(ctx, sp, rec)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})))
		for _, key := range []string{"slow/1", "slow/2", "slow/ever"} {
			putFor(t, s.Space("user:1"), key, 1, time.Second, true)
		}
		time.Sleep(10 * time.Minute)
		if n := left(t, s.Space("user:1"), "slow/"); n != 1 {
			t.Errorf("%d records are left, want one", n)
		}
		mu.Lock()
		defer mu.Unlock()
		if want := map[string]int{"slow/1": 1, "slow/2": 1, "slow/ever": 1}; !maps.Equal(begun, want) {
			t.Errorf("expirers were called %v times, want %v", begun, want)
		}
		began := time.Now()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

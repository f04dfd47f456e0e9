package thole_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
)

// watch opens a watch that the test closes.
func watch(t *testing.T, sp *thole.Space, opts *thole.WatchOptions) *thole.Watch {
	t.Helper()
	w, err := sp.Watch(t.Context(), opts)
	if err != nil {
		t.Fatalf("Watch: %v", err)
	}
	t.Cleanup(w.Close)
	return w
}

// collect takes n deliveries, each as "data" or, a broadcast, as "~data".
func collect(ctx context.Context, w *thole.Watch, n int) (string, error) {
	var out []string
	for len(out) < n {
		ds, err := w.Next(ctx)
		if err != nil {
			return strings.Join(out, " "), err
		}
		for _, d := range ds {
			mark := ""
			if d.IsBroadcast() {
				mark = "~"
			}
			out = append(out, mark+string(d.Data))
		}
	}
	return strings.Join(out, " "), nil
}

func commitNumbers(t testing.TB, sp *thole.Space, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		if _, err := sp.Commit(context.Background(), event(i)); err != nil {
			t.Fatal(err)
		}
	}
}

// pair opens two Stores on one backend.
func pair(t *testing.T, opts *thole.Options, hints bool) (a, b *thole.Space) {
	t.Helper()
	f := &faults{Backend: memstore.New(), shared: true}
	t.Cleanup(func() { f.Backend.Close() })
	var backend journal.Backend = f
	if hints {
		backend = hinting{f}
	}
	return openOn(t, backend, opts).Space("project:shop"), openOn(t, backend, opts).Space("project:shop")
}

func TestAllWatchersSeeTheJournalsOrder(t *testing.T) {
	a, b := pair(t, &thole.Options{Poll: time.Millisecond, Sweep: -1}, true)
	const watchers, writers, each = 200, 8, 25
	var wg sync.WaitGroup
	orders := make([]string, watchers)
	for i := range watchers {
		w := watch(t, []*thole.Space{a, b}[i%2], &thole.WatchOptions{Durable: true})
		wg.Go(func() {
			var err error
			if orders[i], err = collect(t.Context(), w, writers*each); err != nil {
				t.Error(err)
			}
		})
	}
	if got := a.Watchers(); got != watchers/2 {
		t.Errorf("got %d watchers, want %d", got, watchers/2)
	}
	for i := range writers {
		wg.Go(func() {
			for j := range each {
				if _, err := []*thole.Space{a, b}[i%2].Commit(t.Context(), event(i*each+j)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var want []string
	for e, err := range a.Events(t.Context(), thole.ReadQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, string(e.Data))
	}
	for i, got := range orders {
		if got != strings.Join(want, " ") {
			t.Errorf("watcher %d: got another order", i)
		}
	}
}

// Another process removes the space and creates it again. This process, which had
// watchers of the old one, has not noticed: a new watch sees only the new space.
func TestAWatchOfANewSpaceShowsNothingOfTheRemovedOne(t *testing.T) {
	a, b := pair(t, quiet, false)
	old := watch(t, a, nil)
	commitNumbers(t, a, 1, 3)
	if got, err := collect(t.Context(), old, 3); err != nil || got != "1 2 3" {
		t.Fatalf("got %q, %v", got, err)
	}
	if err := b.Purge(t.Context(), thole.Purge{All: true}); err != nil {
		t.Fatal(err)
	}
	commitNumbers(t, b, 11, 12)
	anew := watch(t, a, &thole.WatchOptions{Oldest: true})
	if got, err := collect(t.Context(), anew, 2); err != nil || got != "11 12" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := a.Broadcast("s", "x.said", 13); err != nil {
		t.Fatal(err)
	}
	commitNumbers(t, a, 14, 14)
	if got, err := collect(t.Context(), anew, 2); err != nil || got != "~13 14" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := old.Next(t.Context()); !errors.Is(err, thole.ErrTrimmed) {
		t.Errorf("a watch of the old space: got %v", err)
	}
}

func TestAnotherProcessIsSeenByPollingAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, nil, false)
		w := watch(t, a, nil)
		commitNumbers(t, b, 1, 3)
		start := time.Now()
		if got, err := collect(t.Context(), w, 3); err != nil || got != "1 2 3" {
			t.Errorf("got %q, %v", got, err)
		}
		if waited := time.Since(start); waited > time.Second {
			t.Errorf("waited %v, want at most one poll", waited)
		}
		// Our event after theirs waits for theirs.
		commitNumbers(t, b, 4, 4)
		commitNumbers(t, a, 5, 5)
		if got, err := collect(t.Context(), w, 2); err != nil || got != "4 5" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// placeless is a backend without a store for the spaces of users: a read of their heads
// fails, but only once the gate is closed.
type placeless struct {
	journal.Backend
	asked, gate chan struct{}
}

func (p placeless) Heads(ctx context.Context, names ...string) ([]thole.Head, error) {
	if !slices.Contains(names, "user:42") {
		return p.Backend.Heads(ctx, names...)
	}
	if len(names) == 1 {
		p.asked <- struct{}{}
		<-p.gate
	}
	return nil, thole.ErrInvalid
}

func TestAWatchOfASpaceWithoutAStoreDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faults{Backend: memstore.New(), shared: true}
		t.Cleanup(func() { f.Backend.Close() })
		p := placeless{f, make(chan struct{}, 1), make(chan struct{})}
		a, b := openOn(t, p, &thole.Options{Sweep: -1}), openOn(t, f, &thole.Options{Sweep: -1})
		w := watch(t, a.Space("project:shop"), nil)
		refused := make(chan error)
		go func() {
			_, err := a.Space("user:42").Watch(t.Context(), nil)
			refused <- err
		}()
		<-p.asked
		commitNumbers(t, b.Space("project:shop"), 1, 3)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got, err := collect(ctx, w, 3); err != nil || got != "1 2 3" {
			t.Errorf("got %q, %v", got, err)
		}
		close(p.gate)
		if err := <-refused; !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("a watch of the other space: got %v, want ErrInvalid", err)
		}
	})
}

func TestAHintIsFasterThanThePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, &thole.Options{Poll: time.Hour}, true)
		w := watch(t, a, nil)
		synctest.Wait()
		commitNumbers(t, b, 1, 2)
		start := time.Now()
		if got, err := collect(t.Context(), w, 2); err != nil || got != "1 2" || time.Since(start) > time.Second {
			t.Errorf("got %q, %v after %v", got, err, time.Since(start))
		}
	})
}

func TestAWatchResumesAndFilters(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	at := appendNumbers(t, sp, "app/a", 0, 300) // each followed by one in app/other
	for name, c := range map[string]struct {
		opts thole.WatchOptions
		n    int
		want string // the first deliveries
	}{
		"oldest":       {thole.WatchOptions{Oldest: true}, 600, "0 null 1"},
		"after":        {thole.WatchOptions{After: at[297]}, 5, "null 298 null 299 null"},
		"stream":       {thole.WatchOptions{Oldest: true, Streams: []string{"app/a"}}, 300, "0 1 2"},
		"wild stream":  {thole.WatchOptions{After: at[298], Streams: []string{"app/o*"}}, 2, "null null"},
		"type":         {thole.WatchOptions{After: at[297], Types: []string{"number.*"}}, 2, "298 299"},
		"other type":   {thole.WatchOptions{After: at[297], Types: []string{"x.y", "noise.made"}}, 3, "null null null"},
		"resume end":   {thole.WatchOptions{After: at[299], Types: []string{"number.*"}}, 0, ""},
		"stream+other": {thole.WatchOptions{After: at[298], Streams: []string{"app/b", "app/a"}}, 1, "299"},
	} {
		w := watch(t, sp, &c.opts)
		got, err := collect(t.Context(), w, c.n)
		if err != nil || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %.40q, %v; want %q…", name, got, err, c.want)
		}
		if again := watch(t, sp, &thole.WatchOptions{After: w.Position(), Types: c.opts.Types, Streams: c.opts.Streams}); again.Position() != w.Position() {
			t.Errorf("%s: does not resume at its own position", name)
		}
	}
	beyond := at[299]
	beyond.Seq += 9
	var trimmed *thole.TrimmedError
	if _, err := sp.Watch(t.Context(), &thole.WatchOptions{After: beyond}); !errors.As(err, &trimmed) || trimmed.Last.Seq != 600 {
		t.Errorf("beyond the head: got %v, want TrimmedError", err)
	}
	if _, err := sp.Store().Space("x").Watch(t.Context(), nil); !errors.Is(err, thole.ErrInvalid) {
		t.Errorf("bad name: got %v, want ErrInvalid", err)
	}
	if got := sp.Store().Space("user:nobody").Watchers(); got != 0 {
		t.Errorf("got %d watchers of an unwatched space", got)
	}
}

func TestAPurgeEndsOnlyWatchesWhosePlaceIsGone(t *testing.T) {
	for name, across := range map[string]bool{"same process": false, "another process": true} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair(t, nil, false)
			if !across {
				b = a
			}
			commitNumbers(t, b, 1, 10)
			head, err := a.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			old := head.Last
			old.Seq = 2
			behind := watch(t, a, &thole.WatchOptions{After: old})
			current := watch(t, a, nil)
			before := head.Last
			before.Seq = 6
			if err := b.Purge(t.Context(), thole.Purge{Before: before}); err != nil {
				t.Fatal(err)
			}
			if _, err := behind.Next(t.Context()); !errors.Is(err, thole.ErrTrimmed) {
				t.Errorf("%s: behind: got %v, want ErrTrimmed", name, err)
			}
			commitNumbers(t, b, 11, 11)
			if got, err := collect(t.Context(), current, 1); err != nil || got != "11" {
				t.Errorf("%s: got %q, %v; want 11", name, got, err)
			}
			if err := b.Purge(t.Context(), thole.Purge{All: true}); err != nil {
				t.Fatal(err)
			}
			commitNumbers(t, b, 1, 1)
			if got, err := collect(t.Context(), current, 1); !errors.Is(err, thole.ErrTrimmed) {
				t.Errorf("%s: after purging all: got %q, %v; want ErrTrimmed", name, got, err)
			}
			fresh := watch(t, a, &thole.WatchOptions{Oldest: true})
			if got, err := collect(t.Context(), fresh, 1); err != nil || got != "1" {
				t.Errorf("%s: new watch: got %q, %v; want 1", name, got, err)
			}
		})
	}
}

func TestBroadcastsComeAfterWhatWasCommittedBeforeThem(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	if err := sp.Broadcast("app/x", "x.progress", 0); err != nil {
		t.Errorf("unwatched: got %v", err)
	}
	w := watch(t, sp, nil)
	durable := watch(t, sp, &thole.WatchOptions{Durable: true})
	broadcast := func(n int) {
		t.Helper()
		if err := sp.As("user:1").Broadcast("app/x", "x.progress", n); err != nil {
			t.Fatal(err)
		}
	}
	commitNumbers(t, sp, 1, 1)
	broadcast(2)
	late := watch(t, sp, nil)
	commitNumbers(t, sp, 3, 3)
	broadcast(4)
	if got, err := collect(t.Context(), w, 4); err != nil || got != "1 ~2 3 ~4" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := collect(t.Context(), durable, 2); err != nil || got != "1 3" {
		t.Errorf("durable: got %q, %v", got, err)
	}
	if got, err := collect(t.Context(), late, 2); err != nil || got != "3 ~4" {
		t.Errorf("late: got %q, %v; want no broadcast from before", got, err)
	}
	for _, bad := range []error{sp.Broadcast("", "x.y", 1), sp.Broadcast("a", "x.y", func() {}), sp.Store().Space("x").Broadcast("a", "x.y", 1)} {
		if !errors.Is(bad, thole.ErrInvalid) {
			t.Errorf("got %v, want ErrInvalid", bad)
		}
	}
}

func TestASubscriptionIsInOrderAndEnds(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	var mu sync.Mutex
	var got []string
	enough := make(chan struct{})
	unsubscribe, err := sp.Subscribe(t.Context(), nil, func(d *thole.Delivery) {
		mu.Lock()
		defer mu.Unlock()
		if got = append(got, string(d.Data)); len(got) == 20 {
			close(enough)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	commitNumbers(t, sp, 1, 20)
	<-enough
	unsubscribe()
	commitNumbers(t, sp, 21, 22)
	want := make([]string, 20)
	for i := range want {
		want[i] = fmt.Sprint(i + 1)
	}
	if !slices.Equal(got, want) || sp.Watchers() != 0 {
		t.Errorf("got %v and %d watchers, want 1…20 and none", got, sp.Watchers())
	}
	if _, err := sp.Subscribe(t.Context(), &thole.WatchOptions{After: thole.Position{Epoch: journal.NewEpoch(1)}}, nil); !errors.Is(err, thole.ErrTrimmed) {
		t.Errorf("got %v, want ErrTrimmed", err)
	}
}

func TestClosingTheStoreWaitsForSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := thole.Open(t.Context(), memstore.New(), nil)
		if err != nil {
			t.Fatal(err)
		}
		sp := store.Space("project:shop")
		handling, handled := make(chan struct{}), false
		if _, err := sp.Subscribe(t.Context(), nil, func(*thole.Delivery) {
			close(handling)
			time.Sleep(time.Second)
			handled = true
		}); err != nil {
			t.Fatal(err)
		}
		commitNumbers(t, sp, 1, 1)
		<-handling
		if err := store.Close(); err != nil || !handled {
			t.Errorf("close: %v; want nil after the handler's end, which it came before: %v", err, !handled)
		}
	})
}

func TestAWatchEndsWithItsContextOrItself(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	w := watch(t, sp, nil)
	commitNumbers(t, sp, 1, 1)
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := w.Next(ctx); !errors.Is(err, stop) {
		t.Errorf("cancelled, with an event at hand: got %v, want the cause", err)
	}
	if got, err := collect(t.Context(), w, 1); err != nil || got != "1" {
		t.Errorf("got %q, %v; nothing may be lost", got, err)
	}
	w.Close()
	w.Close()
	if _, err := w.Next(t.Context()); !errors.Is(err, thole.ErrClosed) {
		t.Errorf("closed: got %v, want ErrClosed", err)
	}
}

func TestADeliveryIsEncodedOnceForAllByEachEncoder(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	a, b := watch(t, sp, nil), watch(t, sp, nil)
	commitNumbers(t, sp, 1, 1)
	n := 0
	for _, w := range []*thole.Watch{a, b} {
		ds, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := ds[0].Encoded("plain", func(d *thole.Delivery) []byte { n++; return d.Data })
		if string(got) != "1" || n != 1 {
			t.Errorf("got %q after %d encodings, want 1 after one", got, n)
		}
		other := ds[0].Encoded("typed", func(d *thole.Delivery) []byte { return []byte(d.Type) })
		if string(other) != ds[0].Type {
			t.Errorf("another encoder got %q, want its own %q", other, ds[0].Type)
		}
	}
}

func TestWatchersHearOfAnUncertainBatchThatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faults{Backend: memstore.New()}
		sp := openOn(t, f, &thole.Options{Poll: time.Hour, Sweep: -1}).Space("user:1")
		w := watch(t, sp, nil)
		f.breakCommit(1, after)
		if _, err := sp.Commit(t.Context(), event(1)); !errors.Is(err, errFault) {
			t.Fatalf("got %v, want the fault", err)
		}
		start := time.Now()
		if got, err := collect(t.Context(), w, 1); err != nil || got != "1" || time.Since(start) > time.Second {
			t.Errorf("got %q, %v after %v", got, err, time.Since(start))
		}
	})
}

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

// bus is a backend for several Stores that passes every broadcast to all of them, the
// sender included.
type bus struct {
	*faults
	hangs chan struct{} // when not nil, send waits until it is closed

	mu    sync.Mutex
	hears []func(journal.Broadcast)
	ends  chan error    // the error that receive returns early
	heads chan struct{} // when not nil, Heads waits until it is closed
}

// newBus returns a bus that is closed at the end of the test, after its Stores.
func newBus(t *testing.T) *bus {
	b := &bus{faults: &faults{Backend: memstore.New(), shared: true}, ends: make(chan error, 1)}
	t.Cleanup(func() { b.Backend.Close() })
	return b
}

func (b *bus) Capabilities() journal.Capabilities {
	return journal.Capabilities{Durability: journal.None, SendBroadcasts: b.send, ReceiveBroadcasts: b.receive}
}

func (b *bus) send(ctx context.Context, broadcasts []journal.Broadcast) error {
	if b.hangs != nil {
		select {
		case <-b.hangs:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, sig := range broadcasts {
		for _, hear := range b.hears {
			hear(sig)
		}
	}
	return nil
}

func (b *bus) receive(ctx context.Context, hear func(journal.Broadcast)) error {
	b.mu.Lock()
	b.hears = append(b.hears, hear)
	b.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil
	case err := <-b.ends:
		return err
	}
}

func (b *bus) Heads(ctx context.Context, spaces ...string) ([]thole.Head, error) {
	if b.heads != nil {
		select {
		case <-b.heads:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return b.faults.Heads(ctx, spaces...)
}

// quiet returns options for a Store that never polls.
var quiet = &thole.Options{Poll: time.Hour, Sweep: -1}

func broadcast(t *testing.T, sp *thole.Space, data any) {
	t.Helper()
	if err := sp.Broadcast("app/x", "x.progress", data); err != nil {
		t.Fatal(err)
	}
}

// hears checks the next deliveries of a watch.
func hears(t *testing.T, who string, w *thole.Watch, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if got, err := collect(ctx, w, len(strings.Fields(want))); err != nil || got != want {
		t.Errorf("%s: got %q, %v; want %q", who, got, err, want)
	}
}

func TestBroadcastsReachTheWatchersOfOtherProcessesAfterWhatWasCommittedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t)
		here, there := openOn(t, b, quiet).Space("project:shop"), openOn(t, b, quiet).Space("project:shop")
		synctest.Wait()
		start := time.Now()
		mine, theirs := watch(t, here, nil), watch(t, there, nil)
		commitNumbers(t, there, 1, 3)
		broadcast(t, there, 4)
		broadcast(t, there, 5)
		hears(t, "there", theirs, "1 2 3 ~4 ~5")
		hears(t, "here", mine, "1 2 3 ~4 ~5")
		commitNumbers(t, here, 6, 6)
		broadcast(t, here, 7) // the sender's hub knows as much as its watchers
		hears(t, "there", theirs, "6 ~7")
		broadcast(t, there, 8)
		hears(t, "here", mine, "6 ~7 ~8")
		synctest.Wait()
		commitNumbers(t, here, 9, 9)
		hears(t, "here, at the end", mine, "9")
		if waited := time.Since(start); waited > time.Second {
			t.Errorf("waited %v, as long as for a poll", waited)
		}
	})
}

func TestABroadcastIsNotHeldForAJournalThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t)
		here, there := openOn(t, b, quiet).Space("project:shop"), openOn(t, b, quiet).Space("project:shop")
		synctest.Wait()
		commitNumbers(t, here, 1, 1)
		w := watch(t, here, nil)
		for _, origin := range []string{"store_x", "store_y"} {
			sig := journal.Broadcast{Origin: origin, Space: here.Name(),
				Event: thole.Event{Stream: "app/x", Type: "x.progress", Data: []byte(`2`)}}
			if err := there.Store().SendBroadcasts(t.Context(), []journal.Broadcast{sig}); err != nil {
				t.Fatal(err)
			}
			hears(t, origin, w, "~2")
		}
	})
}

func TestABackendWhoseBroadcastsHangDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t)
		b.hangs = make(chan struct{})
		s := openOn(t, b, quiet)
		sp := s.Space("project:shop")
		w := watch(t, sp, nil)
		synctest.Wait()
		start := time.Now()
		for range 200 {
			broadcast(t, sp, strings.Repeat("x", 50_000))
		}
		commitNumbers(t, sp, 1, 1)
		for {
			ds, err := w.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !ds[len(ds)-1].IsBroadcast() {
				break
			}
		}
		if waited := time.Since(start); waited > 0 {
			t.Errorf("waited %v", waited)
		}
		// If sending is slow, the oldest broadcasts are dropped.
		var heard []journal.Broadcast
		b.mu.Lock()
		b.hears = append(b.hears, func(sig journal.Broadcast) { heard = append(heard, sig) })
		b.mu.Unlock()
		broadcast(t, sp, "last")
		close(b.hangs)
		synctest.Wait()
		if n := len(heard); n < 50 || n > 105 || string(heard[n-1].Event.Data) != `"last"` {
			t.Errorf("received %d broadcasts, want the last 5 MiB at most, and the last one", n)
		}
	})
}

func TestAStoreClosesWhileItsBroadcastsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t)
		b.hangs = make(chan struct{})
		s := openOn(t, b, quiet)
		broadcast(t, s.Space("project:shop"), 1)
		synctest.Wait()
		received := make(chan error)
		go func() { received <- s.ReceiveBroadcasts(t.Context(), func(journal.Broadcast) {}) }()
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-received; !errors.Is(err, thole.ErrClosed) {
			t.Errorf("Receive: got %v, want ErrClosed", err)
		}
		if err := s.SendBroadcasts(t.Context(), make([]journal.Broadcast, 1)); !errors.Is(err, thole.ErrClosed) {
			t.Errorf("Send: got %v, want ErrClosed", err)
		}
	})
}

func TestReceivingGoesOnWhenTheBackendBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t)
		here, there := openOn(t, b, quiet).Space("project:shop"), openOn(t, b, quiet).Space("project:shop")
		w := watch(t, here, nil)
		synctest.Wait()
		b.mu.Lock()
		b.hears = nil
		b.mu.Unlock()
		b.ends <- errFault
		synctest.Wait()
		b.ends <- nil
		time.Sleep(2 * time.Second)
		broadcast(t, there, 1)
		hears(t, "after a break", w, "~1")
	})
}

// A store behind another one, as through a server, shares broadcasts with it and with
// all stores behind it.
func TestBroadcastsPassThroughAStoreOnceAndBearTheNamesOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t)
		first, second := openOn(t, b, quiet), openOn(t, b, quiet)
		at1, at2 := watch(t, first.Space("user:1"), nil), watch(t, second.Space("user:1"), nil)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		heard := make(map[string][]string)
		for name, s := range map[string]*thole.Store{"first": first, "second": second} {
			go func() {
				err := s.ReceiveBroadcasts(ctx, func(sig journal.Broadcast) {
					mu.Lock()
					defer mu.Unlock()
					from, _, passed := strings.Cut(sig.Origin, " ")
					if from != "store_remote" {
						from = "local"
					}
					heard[name] = append(heard[name], fmt.Sprintf("%s %v %s", from, passed, sig.Event.Data))
				})
				if err != nil {
					t.Errorf("Receive: %v", err)
				}
			}()
		}
		synctest.Wait()
		data := []byte(`1`)
		sig := journal.Broadcast{Origin: "store_remote", Space: "user:1", Event: thole.Event{
			Stream: "app/x", Type: "x.progress", Data: data, Position: thole.Position{Epoch: "0001ffffffff", Seq: 1}}}
		if err := first.SendBroadcasts(ctx, []journal.Broadcast{sig}); err != nil {
			t.Fatal(err)
		}
		data[0] = '9' // the data belongs to the caller again
		synctest.Wait()
		broadcast(t, second.Space("user:1"), 2)
		synctest.Wait()
		broadcast(t, first.Space("user:1"), 3)
		synctest.Wait()
		hears(t, "first", at1, "~1 ~2 ~3")
		hears(t, "second", at2, "~1 ~2 ~3")
		cancel()
		synctest.Wait()
		want := []string{"local false 2", "local false 3", "store_remote true 1"}
		for name, got := range heard {
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("received from the %s: got %q, want %q", name, got, want)
			}
		}
		for _, bad := range []journal.Broadcast{
			{Origin: "x", Space: "nowhere", Event: sig.Event},
			{Origin: "x", Space: "user:1", Event: thole.Event{Stream: "s", Type: "x.y", Data: []byte(`{`)}},
			{Origin: strings.Repeat("x", 1<<10), Space: "user:1", Event: sig.Event},
		} {
			if err := first.SendBroadcasts(t.Context(), []journal.Broadcast{bad, sig}); !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("%.100v: got %v, want ErrInvalid", bad, err)
			}
			synctest.Wait()
			hears(t, "first, of the neighbour", at1, "~9")
		}
	})
}

func TestBroadcastsThatWaitForTheJournalAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t)
		here, there := openOn(t, b, quiet).Space("project:shop"), openOn(t, b, quiet).Space("project:shop")
		w := watch(t, here, nil)
		synctest.Wait()
		b.heads = make(chan struct{}) // no read of the journal succeeds
		commitNumbers(t, there, 1, 1)
		for range 100 {
			broadcast(t, there, strings.Repeat("x", 50_000))
			synctest.Wait()
		}
		close(b.heads)
		synctest.Wait()
		commitNumbers(t, here, 2, 2)
		ds, err := w.Next(t.Context())
		if n := len(ds); err != nil || n < 10 || n > 30 {
			t.Errorf("got %d deliveries, %v; want two events and about 1 MiB of broadcasts", n, err)
		}
		if ds[0].IsBroadcast() {
			t.Error("a broadcast before the event that was committed before it")
		}
	})
}

// Broadcasts, and the events behind them, wait for a read of the journal that does not
// come, until they exceed the bound.
func TestTooMuchThatWaitsCostsTheBroadcastsAndNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t)
		sp := openOn(t, b, quiet).Space("project:shop")
		w := watch(t, sp, nil)
		commitNumbers(t, sp, 0, 0)
		hears(t, "before", w, "0")
		synctest.Wait()
		b.heads = make(chan struct{})
		defer close(b.heads)
		broadcast(t, sp, "lost")
		refs := slices.Repeat([]string{strings.Repeat("r", 250)}, 200)
		var want []string
		for i := 1; i <= 40; i++ { // of 50 kB each
			want = append(want, fmt.Sprint(i))
			_, err := sp.Commit(t.Context(), thole.Commit{Events: []thole.Event{{Stream: "app/x", Type: "x.y", Data: []byte(want[i-1]), Refs: refs}}})
			if err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got, err := collect(ctx, w, len(want)); err != nil || got != strings.Join(want, " ") {
			t.Errorf("behind the broadcast: got %q, %v; want %q", got, err, want)
		}
	})
}

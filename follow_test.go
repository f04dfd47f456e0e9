package thole_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

// onHeads calls a function, once, at the beginning of Heads.
type onHeads struct {
	*memstore.Store
	f atomic.Pointer[func()]
}

func (o *onHeads) Heads(ctx context.Context, spaces ...string) ([]thole.Head, error) {
	if f := o.f.Swap(nil); f != nil {
		(*f)()
	}
	return o.Store.Heads(ctx, spaces...)
}

// The last watcher of a space leaves and another comes while CatchUp reads the space's
// journal: what was read for the first must not reach the second.
func TestANewWatchMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		b := &onHeads{Store: memstore.New()}
		s, err := thole.Open(ctx, b, &thole.Options{Poll: 20 * time.Millisecond, RingBytes: 900, Sweep: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sp := s.Space("project:shop")
		event := func(n string) thole.Commit {
			return thole.Commit{Space: sp.Name(), Now: time.Now(), Events: []thole.Event{{Stream: "app/x", Type: "x.y", Data: []byte(n)}}}
		}
		foreign := func(ns string) {
			for _, n := range strings.Split(ns, "") {
				if _, err := b.Commit(ctx, []thole.Commit{event(n)}); err != nil {
					t.Error(err)
				}
			}
		}
		foreign("1")
		old, err := sp.Watch(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		foreign("234")
		comes := make(chan *thole.Watch)
		reading, followed := make(chan struct{}), make(chan struct{})
		first := func() { // runs in CatchUp, which knows the head 4
			old.Close()
			second := func() { // runs in the new Watch, after it has attached
				close(reading)
				<-followed
			}
			b.f.Store(&second)
			go func() {
				w, err := sp.Watch(ctx, nil)
				if err != nil {
					t.Error(err)
				}
				comes <- w
			}()
			<-reading
		}
		b.f.Store(&first)
		<-reading
		synctest.Wait() // until CatchUp has read
		foreign("567")
		close(followed)
		w := <-comes
		defer w.Close()
		if _, err := sp.Commit(ctx, event("8")); err != nil {
			t.Fatal(err)
		}
		if _, err := sp.Commit(ctx, event("9")); err != nil {
			t.Fatal(err)
		}
		page, err := sp.Read(ctx, thole.ReadQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for from := range 8 {
			r, err := sp.Watch(ctx, &thole.WatchOptions{After: page.Events[from].Position})
			if err != nil {
				t.Fatal(err)
			}
			got, err := collect(ctx, r, 8-from)
			r.Close()
			want := strings.Join(strings.Split("123456789"[from+1:], ""), " ")
			if err != nil || got != want {
				t.Errorf("after %d: got %q, %v; want %q", from+1, got, err, want)
			}
		}
	})
}

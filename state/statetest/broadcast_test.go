package statetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/statetest"
)

// TestABroadcastComesAfterWhatAnyProcessHadCommitted watches and broadcasts
// through one Store while another one on the same data commits.
func TestABroadcastComesAfterWhatAnyProcessHadCommitted(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		fast := &thole.Options{Now: e.Clock.Now, Sweep: -1, Poll: 5 * time.Millisecond}
		here, there := e.Space("project:shop"), e.Second(fast).Space("project:shop")
		commit(t, there, "first")
		mine, theirs := watch(t, here), watch(t, there)
		for round := range 20 {
			commit(t, there, fmt.Sprintf("theirs-%d", round)) // acknowledged
			broadcast(t, here, fmt.Sprintf("live-%d", round))
			hear(t, mine, fmt.Sprintf("theirs-%d", round), fmt.Sprintf("~live-%d", round))
			commit(t, here, fmt.Sprintf("ours-%d", round))
			hear(t, mine, fmt.Sprintf("ours-%d", round))
			// If broadcasts pass between processes, this one followed the same
			// event.
			want := []string{fmt.Sprintf("theirs-%d", round), fmt.Sprintf("ours-%d", round)}
			for len(want) > 0 {
				for _, name := range next(t, theirs) {
					switch {
					case len(want) == 2 && name == fmt.Sprintf("~live-%d", round):
						t.Errorf("round %d: the broadcast came before %s", round, want[0])
					case len(want) > 0 && name == want[0]:
						want = want[1:]
					}
				}
			}
		}
	})
}

// Progress is shown before the event that ends it, however many other processes there
// are.
func TestBroadcastsAndCommitsOfOneStoreKeepTheirOrder(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		commit(t, sp, "first")
		w := watch(t, sp)
		for round := range 50 {
			commit(t, sp, "begun")
			for i := range 3 {
				broadcast(t, sp, fmt.Sprintf("at-%d-%d", round, i))
			}
			commit(t, sp, "done")
			hear(t, w, "begun", fmt.Sprintf("~at-%d-0", round), fmt.Sprintf("~at-%d-1", round), fmt.Sprintf("~at-%d-2", round), "done")
		}
	})
}

func commit(t *testing.T, sp *thole.Space, name string) {
	t.Helper()
	_, err := sp.Update(t.Context(), func(tx *thole.Tx) error { tx.Emit("app/x", "x.y", name); return nil })
	if err != nil {
		t.Fatal(err)
	}
}

func broadcast(t *testing.T, sp *thole.Space, name string) {
	t.Helper()
	if err := sp.Broadcast("app/x", "x.live", name); err != nil {
		t.Fatal(err)
	}
}

func watch(t *testing.T, sp *thole.Space) *thole.Watch {
	t.Helper()
	w, err := sp.Watch(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// next returns the names of the next deliveries; ~ marks broadcasts.
func next(t *testing.T, w *thole.Watch) []string {
	t.Helper()
	ds, err := w.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range ds {
		var name string
		if err := d.As(&name); err != nil {
			t.Fatal(err)
		}
		if d.IsBroadcast() {
			name = "~" + name
		}
		names = append(names, name)
	}
	return names
}

func hear(t *testing.T, w *thole.Watch, want ...string) {
	t.Helper()
	var got []string
	for len(got) < len(want) {
		got = append(got, next(t, w)...)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

package thread_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

func TestAPrivateThreadIsKnownToItsOwnerAliveAndDead(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		owner, other := e.Space("project:shop").As("user:1"), e.Space("project:shop").As("user:2")
		made := func(o thread.CreateOptions) string {
			t.Helper()
			th, err := thread.In(owner).Create(t.Context(), &o)
			if err != nil {
				t.Fatal(err)
			}
			return th.ID
		}
		open, private := made(thread.CreateOptions{}), made(thread.CreateOptions{Visibility: thread.Private})
		check := func(when, id string, sp *thole.Space, want bool) {
			t.Helper()
			if may, err := thread.In(sp).MayKnow(t.Context(), id); may != want || err != nil {
				t.Errorf("%s: %s may know of %s: got %t, %v; want %t", when, sp.Actor(), id, may, err, want)
			}
		}
		for _, when := range []string{"alive", "destroyed"} {
			check(when, open, owner, true)
			check(when, open, other, true)
			check(when, private, owner, true)
			check(when, private, other, false)
			if when == "alive" {
				for _, id := range []string{open, private} {
					if err := thread.In(owner).Destroy(t.Context(), id, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		check("never", thole.NewID("thrd"), owner, false)

		// A head of an earlier version, so large that the final state has no room for it.
		cut := thole.NewID("thrd")
		large, err := json.Marshal(thread.Head{Visibility: thread.Private, Owner: "user:1", Title: strings.Repeat("x", thole.MaxValueBytes-1<<10)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := owner.Commit(t.Context(), thole.Commit{Writes: []thole.Write{{Key: thread.Key(cut), Value: large}}}); err != nil {
			t.Fatal(err)
		}
		if err := thread.In(owner).Destroy(t.Context(), cut, nil); err != nil {
			t.Fatal(err)
		}
		check("cut", cut, other, false)
	})
}

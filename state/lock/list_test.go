package lock_test

import (
	"errors"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/statetest"
)

func TestALockWhoseHolderCannotBeReadDoesNotLookFree(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		ls := lock.In(sp)
		for _, name := range []string{"a", "b", "c"} {
			acquire(t, ls, name, "user:1")
		}
		if _, err := ls.Acquire(ctx, "b", &lock.Options{Owner: "user:2", Mode: lock.Intent}); err != nil {
			t.Fatal(err)
		}
		if _, err := sp.Update(ctx, func(tx *thole.Tx) error {
			tx.Put("lock/b/owner", "bad", nil)
			tx.Put("lock/b/queue", "bad", nil)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		page, err := ls.List(ctx, nil)
		if err != nil || len(page.Items) != 3 {
			t.Fatalf("the locks are %v, %v", page.Items, err)
		}
		for i, owner := range []string{"user:1", "", "user:1"} {
			if h := page.Items[i].Holder; h == nil || h.Owner != owner || h.Token.IsZero() || h.Expires.IsZero() {
				t.Errorf("the holder of %s is %+v, want one called %q", page.Items[i].Name, h, owner)
			}
		}
		if intents := page.Items[1].Intents; len(intents) != 1 || intents[0].Owner != "user:2" {
			t.Errorf("the intents are %v", intents)
		}
		if _, err := ls.Get(ctx, "b"); !errors.Is(err, thole.ErrCorrupt) {
			t.Errorf("a read of the lock: %v, want ErrCorrupt", err)
		}
		if _, err := ls.Acquire(ctx, "b", nil); !errors.Is(err, thole.ErrCorrupt) {
			t.Errorf("acquiring the lock: %v, want ErrCorrupt", err)
		}
	})
}

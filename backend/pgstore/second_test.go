package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/pgtest"
)

func TestWatchTellsOnlyOfCommitsOfOthers(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	ours, theirs := open(t, dsn), open(t, dsn)
	ctx, stop := context.WithCancel(t.Context())
	woken, done := make(chan string, 100), make(chan error, 1)
	go func() { done <- ours.Capabilities().Hints(ctx, func(space string) { woken <- space }) }()
	for range 20 {
		commit(t, ours, "user:1", "a", `1`)
	}
	// There is more than one hint, since the first may come before the watch begins.
	for limit := time.After(10 * time.Second); ; {
		commit(t, theirs, "user:2", "a", `1`)
		select {
		case space := <-woken:
			if space != "user:2" {
				t.Errorf("hint: got %q, want user:2", space)
			}
			stop()
			if err := <-done; err != nil {
				t.Errorf("watch: got %v, want nil", err)
			}
			return
		case <-time.After(20 * time.Millisecond):
		case <-limit:
			t.Fatal("no hint came after commits of another store")
		}
	}
}

package filestore

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/internal/faultfs"
	"github.com/thole-dev/thole/journal"
)

func TestALockThatAStoppedProcessHoldsIsWaitedForWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &Options{FS: faultfs.New(1), Lag: -1, Log: slog.New(slog.DiscardHandler)}
		var stores []*Store
		for range 2 {
			s, err := Open(t.Context(), "/store", o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			stores = append(stores, s)
		}
		commit := func() error {
			_, err := stores[0].Commit(t.Context(), []journal.Commit{{Space: "user:1", Events: []journal.Event{{Stream: "s", Type: "x.y"}}}})
			return err
		}
		if ok, err := stores[1].lockFile.TryLock(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		begin := time.Now()
		if err := commit(); !errors.Is(err, journal.ErrUnavailable) || time.Since(begin) > lockPatience+time.Second {
			t.Errorf("commit while another holds the lock: got %v after %v, want ErrUnavailable after %v", err, time.Since(begin), lockPatience)
		}
		if err := stores[1].lockFile.Unlock(); err != nil {
			t.Fatal(err)
		}
		if err := commit(); err != nil {
			t.Errorf("commit after it: %v", err)
		}
	})
}

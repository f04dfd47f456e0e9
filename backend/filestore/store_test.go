package filestore_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/thole-dev/thole/backend/backendtest"
	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/journal"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quiet keeps a store from logging repairs and adoptions.
var quiet = slog.New(slog.DiscardHandler)

// open opens the store in dir and closes it at the end of the test.
func open(t testing.TB, dir string, o *filestore.Options) *filestore.Store {
	t.Helper()
	if o == nil {
		o = &filestore.Options{}
	}
	o.Log = quiet
	s, err := filestore.Open(context.Background(), dir, o)
	if err != nil {
		t.Fatalf("open %s: %v", dir, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != s.Stopped() {
			t.Errorf("close %s: %v", dir, err)
		}
	})
	return s
}

// harness returns a fresh store with those options.
func harness(o filestore.Options) backendtest.Opener {
	return func(t testing.TB) backendtest.Harness {
		dir := filepath.Join(t.TempDir(), "store")
		s := open(t, dir, &o)
		return backendtest.Harness{
			Backend: s,
			Lacks:   []backendtest.Ability{backendtest.Broadcasts},
			Reopen: func(t testing.TB) journal.Backend {
				s.Close()
				s = open(t, dir, &o)
				return s
			},
			Second: func(t testing.TB) journal.Backend { return open(t, dir, &o) },
		}
	}
}

func TestItKeepsTheContractOfBackends(t *testing.T) {
	backendtest.Run(t, harness(filestore.Options{}))
}

// With these options, files are written all the time, and a segment holds few commits.
func TestItKeepsTheContractWithSmallSegmentsAndNoLag(t *testing.T) {
	effort.AllOnly(t)
	effort.SlowUnderRace(t)
	backendtest.Run(t, harness(filestore.Options{Lag: time.Nanosecond, SegmentBytes: 1000}))
}

func TestWhatBreaksTheContractIsRejected(t *testing.T) {
	effort.SoakOnly(t)
	backendtest.RejectBroken(t, harness(filestore.Options{}))
}

func TestItBehavesAsTheModel(t *testing.T) {
	effort.SlowUnderRace(t)
	backendtest.Model(t, harness(filestore.Options{}), 0)
	backendtest.Model(t, harness(filestore.Options{Lag: time.Nanosecond, SegmentBytes: 1000}), 0)
}

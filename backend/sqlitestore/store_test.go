package sqlitestore_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/thole-dev/thole/backend/backendtest"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/journal"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if helper() {
		return
	}
	goleak.VerifyTestMain(m)
}

// open opens the store at path and closes it at the end of the test.
func open(t testing.TB, path string, o *sqlitestore.Options) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(context.Background(), path, o)
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close %s: %v", path, err)
		}
	})
	return s
}

func fresh(t testing.TB) backendtest.Harness {
	path := filepath.Join(t.TempDir(), "thole.db")
	s := open(t, path, nil)
	return backendtest.Harness{
		Backend: s,
		Reopen: func(t testing.TB) journal.Backend {
			s.Close()
			s = open(t, path, nil)
			return s
		},
		Second: func(t testing.TB) journal.Backend { return open(t, path, nil) },
		Lacks:  []backendtest.Ability{backendtest.Broadcasts},
	}
}

func TestItKeepsTheContractOfBackends(t *testing.T) {
	backendtest.Run(t, fresh)
}

func TestWhatBreaksTheContractIsRejected(t *testing.T) {
	effort.AllOnly(t)
	effort.SlowUnderRace(t)
	backendtest.RejectBroken(t, fresh)
}

func TestItBehavesAsTheModel(t *testing.T) {
	effort.SlowUnderRace(t)
	backendtest.Model(t, fresh, 0)
}

// commit commits one event to a stream and fails the test on a conflict.
func commit(t testing.TB, b journal.Backend, space, stream, data string) journal.Result {
	t.Helper()
	results, err := b.Commit(t.Context(), []journal.Commit{{
		Space: space, Now: time.Now(), Actor: "system",
		Events: []journal.Event{{Stream: stream, Type: "note.added", Data: []byte(data)}},
	}})
	if err != nil || results[0].Conflict != nil {
		t.Fatalf("commit: got %v, %v; want success", results, err)
	}
	return results[0]
}

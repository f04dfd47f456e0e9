package pgstore_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/thole-dev/thole/backend/backendtest"
	"github.com/thole-dev/thole/backend/pgstore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/journal"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens the store at dsn and closes it at the end of the test.
func open(t testing.TB, dsn string) *pgstore.Store {
	t.Helper()
	s, err := pgstore.Open(context.Background(), dsn)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// with adds a parameter to a DSN.
func with(t testing.TB, dsn, name, value string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// harness returns a harness for a store at dsn.
func harness(t testing.TB, dsn string) backendtest.Harness {
	s := open(t, dsn)
	return backendtest.Harness{
		Backend: s,
		Reopen: func(t testing.TB) journal.Backend {
			s.Close()
			s = open(t, dsn)
			return s
		},
		Second: func(t testing.TB) journal.Backend { return open(t, dsn) },
	}
}

// direct opens stores in schemas of one database.
func direct(t testing.TB) backendtest.Opener {
	dsn := pgtest.Start(t).Database(t)
	schemas := 0
	return func(t testing.TB) backendtest.Harness {
		schemas++
		return harness(t, with(t, dsn, "schema", fmt.Sprintf("store %d", schemas)))
	}
}

// pooled is direct behind pgbouncer in transaction mode.
func pooled(t testing.TB) backendtest.Opener {
	server := pgtest.Start(t)
	dsn := server.Database(t)
	through := with(t, server.Pooled(t, dsn), "direct", dsn)
	schemas := 0
	return func(t testing.TB) backendtest.Harness {
		schemas++
		return harness(t, with(t, through, "schema", fmt.Sprintf("store %d", schemas)))
	}
}

func TestItKeepsTheContractOfBackends(t *testing.T) { backendtest.Run(t, direct(t)) }

func TestItKeepsTheContractBehindAPooler(t *testing.T) {
	effort.SlowUnderRace(t)
	backendtest.Run(t, pooled(t))
}

func TestWhatBreaksTheContractIsRejected(t *testing.T) {
	effort.SlowUnderRace(t)
	backendtest.RejectBroken(t, direct(t))
}

func TestWhatBreaksTheContractBehindAPoolerIsRejected(t *testing.T) {
	effort.SoakOnly(t)
	backendtest.RejectBroken(t, pooled(t))
}

func TestItBehavesAsTheModel(t *testing.T) {
	effort.SlowUnderRace(t)
	backendtest.Model(t, direct(t), 0)
}

func TestItBehavesAsTheModelBehindAPooler(t *testing.T) {
	effort.SoakOnly(t)
	backendtest.Model(t, pooled(t), 0)
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

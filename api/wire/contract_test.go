package wire_test

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/wire"
	"github.com/thole-dev/thole/backend/backendtest"
	"github.com/thole-dev/thole/backend/pgstore"
	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a Thole server in this process.
type server struct {
	*httptest.Server
	store *thole.Store
	drain context.CancelFunc
}

// serve serves b until the end of the test.
func serve(t testing.TB, b journal.Backend) *server {
	t.Helper()
	store, err := thole.Open(context.Background(), b, &thole.Options{Sweep: -1})
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	draining, cancel := context.WithCancel(context.Background())
	h := httptest.NewServer(wire.New(store, &wire.Options{Draining: draining}))
	h.Config.RegisterOnShutdown(cancel)
	s := &server{h, store, cancel}
	t.Cleanup(s.stop)
	return s
}

// stop ends the server; it is idempotent.
func (s *server) stop() {
	s.Config.Shutdown(context.Background())
	s.Close()
	s.store.Close()
}

func dial(t testing.TB, url string, o *remote.Options) *remote.Backend {
	t.Helper()
	b, err := remote.Open(context.Background(), url, o)
	if err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func sqlite(t testing.TB, path string) journal.Backend {
	t.Helper()
	b, err := sqlitestore.Open(context.Background(), path, nil)
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	return b
}

// over returns a remote backend on a server on the backend that open opens, always on
// the same data. Reopening closes both and starts another server; the second instance
// is another client.
func over(t testing.TB, open func() journal.Backend) backendtest.Harness {
	s := serve(t, open())
	b := dial(t, s.URL, nil)
	return backendtest.Harness{
		Backend: b,
		Reopen: func(t testing.TB) journal.Backend {
			b.Close()
			s.stop()
			s = serve(t, open())
			b = dial(t, s.URL, nil)
			return b
		},
		Second: func(t testing.TB) journal.Backend { return dial(t, s.URL, nil) },
	}
}

func overSQLite(t testing.TB) backendtest.Harness {
	path := filepath.Join(t.TempDir(), "thole.db")
	return over(t, func() journal.Backend { return sqlite(t, path) })
}

// overPostgres returns such a backend on PostgreSQL, if everything is to be tested. The
// second instance is a client of another server on the same database.
func overPostgres(t testing.TB) backendtest.Harness {
	dsn := pgtest.Start(t).Database(t)
	open := func() journal.Backend {
		b, err := pgstore.Open(context.Background(), dsn)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		return b
	}
	h := over(t, open)
	h.Second = func(t testing.TB) journal.Backend { return dial(t, serve(t, open()).URL, nil) }
	return h
}

func TestARemoteStoreKeepsTheContractOfBackends(t *testing.T) { backendtest.Run(t, overSQLite) }

func TestARemoteStoreBehavesAsTheModel(t *testing.T) {
	effort.SlowUnderRace(t)
	backendtest.Model(t, overSQLite, 0)
}

func TestWhatBreaksTheContractIsRejectedThroughAServer(t *testing.T) {
	effort.SoakOnly(t)
	backendtest.RejectBroken(t, overSQLite)
}

func TestOnPostgreSQLAsWell(t *testing.T) {
	effort.AllOnly(t)
	effort.SlowUnderRace(t)
	t.Run("contract", func(t *testing.T) { backendtest.Run(t, overPostgres) })
	t.Run("model", func(t *testing.T) {
		effort.SoakOnly(t)
		backendtest.Model(t, overPostgres, 0)
	})
	t.Run("broken", func(t *testing.T) {
		effort.SoakOnly(t)
		backendtest.RejectBroken(t, overPostgres)
	})
}

package pgtest

import (
	"context"
	"sync"
	"testing"

	"github.com/thole-dev/thole/internal/effort"
)

// shared starts the server that all tests of a process share, on the first call. It
// ends with the process. No test may kill it, so it runs without fsync, which takes
// most of the time of creating a database.
var shared = sync.OnceValues(func() (*Server, error) { return launch("-c", "fsync=off") })

// Start returns a server that all tests of the process share; do not stop it. It skips
// the test unless THOLE_TEST is set to all or soak, as in `make test`: a plain `go
// test` is quick and needs no server. If it is set, missing programs fail the test.
func Start(t testing.TB) *Server {
	t.Helper()
	asked(t)
	s, err := shared()
	require(t, err)
	return s
}

// Own returns a server for this test alone, which may stop and kill it. It ends with
// the test. Own skips the test as [Start] does.
func Own(t testing.TB) *Server {
	t.Helper()
	asked(t)
	s, err := Launch()
	require(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("stop postgres: %v", err)
		}
	})
	return s
}

// Database returns the DSN of an empty database for this test alone. It reuses
// databases of earlier tests, since emptying one is much faster than creating one.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	dsn, err := s.take(t.Context())
	require(t, err)
	t.Cleanup(func() {
		if err := s.giveBack(context.Background(), dsn); err != nil {
			t.Errorf("empty %s: %v", dsn, err)
		}
	})
	return dsn
}

// Pooled returns a DSN for the same database through pgbouncer in transaction mode.
func (s *Server) Pooled(t testing.TB, dsn string) string {
	t.Helper()
	pooled, err := s.Pool(dsn)
	require(t, err)
	return pooled
}

func asked(t testing.TB) {
	t.Helper()
	effort.AllOnly(t)
}

func require(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

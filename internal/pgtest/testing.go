package pgtest

import (
	"context"
	"sync"
	"testing"

	"github.com/thole-dev/thole/internal/effort"
)

// shared is the one server of a test process, started by who asks first. It
// ends with the process. Nobody may kill it, so it need not wait for its disk,
// which takes most of the time of making a database.
var shared = sync.OnceValues(func() (*Server, error) { return launch("-c", "fsync=off") })

// Start returns a server that all tests of the process share; do not stop it.
// The test is skipped unless the environment says THOLE_TEST=all, as it does in
// `make test`: a plain `go test` is quick and needs no server. Programs that are
// missing then fail it.
func Start(t testing.TB) *Server {
	t.Helper()
	asked(t)
	s, err := shared()
	require(t, err)
	return s
}

// Own returns a server for this test alone, which may stop and kill it. It ends
// with the test. When it is skipped is as in [Start].
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

// Database returns the DSN of an empty database for this test alone. It may have
// served another before: emptying one is far quicker than making one.
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

// Pooled returns dsn through pgbouncer in transaction mode.
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

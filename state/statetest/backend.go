package statetest

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/thole-dev/thole/api/wire"
	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/pgstore"
	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/journal"
)

// opener opens a test's backend, always on the same data.
type opener func() (journal.Backend, error)

// backend is a kind of backend to test on.
type backend struct {
	name    string
	prepare func(t testing.TB, clock *Clock) opener
}

// backends returns the backends to test on, mem first: the others are compared with it.
func backends() []backend {
	server := backend{"remote", over(sqlite)}
	embedded := []backend{{"mem", mem}, {"sqlite", sqlite}}
	switch {
	case effort.Soak():
		return append(embedded, backend{"file", file}, backend{"postgres", postgres},
			server, backend{"pgbouncer", pgbouncer}, backend{"remote-postgres", over(postgres)})
	case effort.Race:
		return []backend{embedded[0], server}
	case effort.All():
		return append(embedded, backend{"postgres", postgres})
	}
	return embedded
}

// deep returns the backends for a promise whose test takes long.
func deep() []backend {
	switch {
	case effort.Soak():
		return backends()
	case effort.All():
		return []backend{{"sqlite", sqlite}}
	}
	return []backend{{"mem", mem}}
}

// kept is a memory backend that outlives its Store, so that it can be opened again like
// a file.
type kept struct{ *memstore.Store }

// Close does nothing.
func (kept) Close() error { return nil }

func mem(testing.TB, *Clock) opener {
	b := kept{memstore.New()}
	return func() (journal.Backend, error) { return b, nil }
}

func sqlite(t testing.TB, _ *Clock) opener {
	path := filepath.Join(t.TempDir(), "store.db")
	return func() (journal.Backend, error) { return sqlitestore.Open(context.Background(), path, nil) }
}

func file(t testing.TB, _ *Clock) opener {
	dir := t.TempDir()
	return func() (journal.Backend, error) { return filestore.Open(context.Background(), dir, nil) }
}

func postgres(t testing.TB, _ *Clock) opener {
	dsn := pgtest.Start(t).Database(t)
	return func() (journal.Backend, error) { return pgstore.Open(context.Background(), dsn) }
}

func pgbouncer(t testing.TB, _ *Clock) opener {
	s := pgtest.Start(t)
	dsn := s.Pooled(t, s.Database(t))
	return func() (journal.Backend, error) { return pgstore.Open(context.Background(), dsn) }
}

// over returns a backend that is a server in this process on another backend, which it
// keeps open.
func over(prepare func(testing.TB, *Clock) opener) func(testing.TB, *Clock) opener {
	return func(t testing.TB, clock *Clock) opener {
		t.Helper()
		b, err := prepare(t, clock)()
		if err != nil {
			t.Fatalf("open the server's backend: %v", err)
		}
		store := openStore(t, b, clock)
		server := httptest.NewServer(wire.New(store, nil))
		t.Cleanup(func() {
			server.Close()
			if err := store.Close(); err != nil {
				t.Errorf("close the server's store: %v", err)
			}
		})
		return func() (journal.Backend, error) { return remote.Open(context.Background(), server.URL, nil) }
	}
}

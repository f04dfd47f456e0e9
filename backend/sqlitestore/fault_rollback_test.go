package sqlitestore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole/backend/backendtest/model"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/journal"
)

// A transaction that outgrows the cache writes to the log before it commits. If it is
// then rolled back, what it wrote must not later replace what another process committed
// meanwhile.
func TestACommitThatIsGivenUpHarmsNoOtherStore(t *testing.T) {
	big := journal.Commit{Space: "user:1"}
	for n := range 30 {
		big.Events = append(big.Events, journal.Event{Stream: "a", Type: "note.added",
			Data: []byte(`"` + strings.Repeat(fmt.Sprint(n, "."), 20_000) + `"`)})
	}
	given := 0
	for after := 0; ; after++ {
		p, err := newPlatter(t.TempDir(), nil, rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(p.dir, "thole.db")
		a := open(t, path, &sqlitestore.Options{VFS: newPlatterFS(p), CacheBytes: 1 << 20})
		b := open(t, path, &sqlitestore.Options{VFS: newPlatterFS(p)})
		ctx, cancel := context.WithCancelCause(t.Context())
		p.whoWaits(cancel)
		p.arm(cancelled, after)
		_, err = a.Commit(ctx, []journal.Commit{big})
		p.disarm()
		if err == nil {
			break // even the last operation came too early
		}
		given++
		commit(t, b, "user:2", "a", `"`+strings.Repeat("x", 100_000)+`"`)
		commit(t, a, "user:2", "a", `2`) // it reads the log first
		for _, s := range []*sqlitestore.Store{a, b} {
			page, err := s.Read(t.Context(), "user:2", journal.ReadQuery{})
			if err != nil || len(page.Events) != 2 || len(page.Events[0].Data) != 100_002 {
				t.Fatalf("given up after %d operations: read: got %d events, %v; want 2", after, len(page.Events), err)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Fatalf("given up after %d operations: %v", after, err)
			}
		}
		a.Close()
		b.Close()
	}
	if given < 3 {
		t.Errorf("commits given up: got %d, want some in each phase", given)
	}
}

// Linux takes data for written that a failed sync did not write. The next process must
// not rely on it: after power loss it is gone.
func TestAfterAFailedSyncTheNextProcessDoesNotTrustThePageCache(t *testing.T) {
	for seed := range uint64(20) {
		p, err := newPlatter(t.TempDir(), nil, rand.New(rand.NewPCG(seed, 1)))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(p.dir, "thole.db")
		start := func() *sqlitestore.Store {
			s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{VFS: newPlatterFS(p)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() }) // there is no disk any more
			return s
		}
		s := start()
		if err := tryCommit(s); err != nil {
			t.Fatal(err)
		}
		s.Close()
		s = start() // the log is empty, so it will not have all pages
		commit(t, s, "user:1", "a", `1`)
		p.arm(syncFails, 0)
		if err := tryCommit(s); err == nil {
			t.Fatal("commit whose sync fails: got success")
		}
		p.kill()
		s.Close()
		start()
		left := filepath.Join(t.TempDir(), "thole.db")
		for name, data := range p.powerLoss() {
			write(t, filepath.Join(filepath.Dir(left), name), data)
		}
		again, err := sqlitestore.Open(t.Context(), left, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, err := model.Observe(t.Context(), again)
		if err == nil {
			err = again.Check(t.Context())
		}
		again.Close()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		events, other := len(got["user:1"].Events), got["user:2"]
		if version := other.Records["k"].Version.Seq; events < 2 || events != int(version)+1 || version != other.Last {
			t.Fatalf("seed %d: got %d events and a record of version %d; want 2 events, and the failed commit completely or not at all", seed, events, version)
		}
	}
}

// Until a new file has a write-ahead log, SQLite writes it under a rollback journal, which
// must be found after a power loss.
func TestAStoreOpensWhereverThePowerWasLostWhileItWasMade(t *testing.T) {
	for seed := range uint64(8) {
		for _, kind := range []fault{writeFails, syncFails, deleteFails} {
			for after, struck := 0, true; struck; after++ {
				p, err := newPlatter(t.TempDir(), nil, rand.New(rand.NewPCG(seed, 1)))
				if err != nil {
					t.Fatal(err)
				}
				p.arm(kind, after)
				s, err := sqlitestore.Open(t.Context(), filepath.Join(p.dir, "thole.db"), &sqlitestore.Options{VFS: newPlatterFS(p)})
				if struck = err != nil; !struck {
					s.Close()
				}
				left := filepath.Join(t.TempDir(), "thole.db")
				for name, data := range p.powerLoss() {
					write(t, filepath.Join(filepath.Dir(left), name), data)
				}
				if s, err = sqlitestore.Open(t.Context(), left, nil); err != nil {
					t.Fatalf("seed %d, %s after %d operations: %v", seed, faultNames[kind], after, err)
				}
				s.Close()
			}
		}
	}
}

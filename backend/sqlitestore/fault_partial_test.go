package sqlitestore_test

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/journal"
)

// A reader keeps a checkpoint from the end of the log, so it does not sync what
// it copied. If a later sync of the file fails, that may be lost, too, and the
// log must not be given up before all of it was copied again.
func TestAfterAFailedSyncTheWholeLogIsCopiedAgain(t *testing.T) {
	for seed := range uint64(20) {
		p, err := newPlatter(t.TempDir(), nil, rand.New(rand.NewPCG(seed, 1)))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(p.dir, "thole.db")
		s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{VFS: newPlatterFS(p)})
		if err != nil {
			t.Fatal(err)
		}
		text := `"` + strings.Repeat("x", 400_000) + `"`
		commit(t, s, "user:1", "a", text)
		endRead := beginRead(t, path)
		for range 4 { // the log outgrows its limit, and is copied as far as the reader allows
			commit(t, s, "user:1", "a", text)
		}
		endRead()
		p.arm(syncFails, 1) // after that of the log
		if err := s.Close(); err == nil {
			t.Fatal("close while the disk fails to sync: got success")
		}
		left := filepath.Join(t.TempDir(), "thole.db")
		for name, data := range p.powerLoss() {
			write(t, filepath.Join(filepath.Dir(left), name), data)
		}
		again := open(t, left, nil)
		page, err := again.Read(t.Context(), "user:1", journal.ReadQuery{})
		if err != nil || len(page.Events) != 5 {
			t.Fatalf("seed %d: got %d events, %v; want the 5 that were acknowledged", seed, len(page.Events), err)
		}
		if err := again.Check(t.Context()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again.Close()
	}
}

// beginRead begins to read the file as another program does.
func beginRead(t *testing.T, path string) (end func()) {
	t.Helper()
	c, err := sqlite3.Open("file:" + path)
	if err == nil {
		err = c.Exec(`BEGIN; SELECT count(*) FROM event`)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

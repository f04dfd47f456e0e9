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

// Because of a reader, a checkpoint cannot copy the whole log, so it does not sync what
// it copied. If a later sync of the file fails, that may be lost too, and the process
// stops. The next process must not drop the log before it has copied all of it again,
// even though a third program keeps the log's index alive, which says that there is
// nothing to copy.
func TestAfterAFailedSyncTheNextProcessCopiesTheWholeLogAgain(t *testing.T) {
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
		shell, err := sqlite3.Open("file:" + path)
		if err == nil {
			err = shell.Exec(`BEGIN; SELECT count(*) FROM event`)
		}
		if err != nil {
			t.Fatal(err)
		}
		for range 4 { // the log exceeds its limit and is copied as far as the reader allows
			commit(t, s, "user:1", "a", text)
		}
		if err := shell.Exec(`COMMIT`); err != nil {
			t.Fatal(err)
		}
		p.arm(syncFails, 1) // after the sync of the log
		if err := s.Close(); err == nil {
			t.Fatal("close while the disk fails to sync: got success")
		}
		if seed%2 == 0 { // else the power fails at once
			next, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{VFS: newPlatterFS(p)})
			if err != nil {
				t.Fatal(err)
			}
			if err := next.Close(); err != nil { // it copies the log and truncates it
				t.Fatal(err)
			}
		}
		left := filepath.Join(t.TempDir(), "thole.db")
		for name, data := range p.powerLoss() {
			write(t, filepath.Join(filepath.Dir(left), name), data)
		}
		shell.Close()
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

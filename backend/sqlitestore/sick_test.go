package sqlitestore_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/journal"
)

func commitsTo(t *testing.T, s *sqlitestore.Store, spaces ...string) []journal.Result {
	t.Helper()
	var batch []journal.Commit
	for _, name := range spaces {
		batch = append(batch, journal.Commit{Space: name, Now: time.Now(), Events: []journal.Event{{Stream: "s", Type: "a.b", Data: []byte("1")}}})
	}
	results, err := s.Commit(t.Context(), batch)
	if err != nil {
		t.Fatalf("got %v, want a result for each commit", err)
	}
	return results
}

func TestASpaceWhoseRowIsDamagedFailsNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thole.db")
	s, err := sqlitestore.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	commitsTo(t, s, "project:sick", "project:good")
	db, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Exec(`UPDATE space SET last = 'nowhere' WHERE name = 'project:sick'`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	for i, r := range commitsTo(t, s, "project:good", "project:sick", "project:good", "project:sick", "project:new") {
		if sick := i == 1 || i == 3; sick != errors.Is(r.Err, journal.ErrCorrupt) || sick != r.Last.IsZero() {
			t.Errorf("commit %d: got %+v", i, r)
		}
	}
	page, err := s.Read(t.Context(), "project:good", journal.ReadQuery{})
	if err != nil || len(page.Events) != 3 || page.Events[2].Position.Seq != 3 {
		t.Errorf("the good space: got %v, %v; want 3 events", page.Events, err)
	}
}

func TestASpaceHasNoMorePositionsThanItsFileHasRoomFor(t *testing.T) {
	s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "thole.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	imported := func(space string, last uint64) error {
		at := journal.Position{Epoch: "0001aaaaaaaa", Seq: last}
		return s.Load(t.Context(), space, journal.Chunk{Done: true, Head: journal.Head{
			Space: space, Oldest: at, Last: at, Epochs: []journal.Epoch{{Name: at.Epoch, First: 1, Last: last}},
		}})
	}
	if err := imported("project:beyond", 1<<41); !errors.Is(err, journal.ErrFull) {
		t.Errorf("an import beyond the last position: got %v, want ErrFull", err)
	}
	if err := imported("project:full", 1<<40-3); err != nil {
		t.Fatal(err)
	}
	for i, r := range commitsTo(t, s, "project:full", "project:full", "project:good") {
		if full := i == 1; full != errors.Is(r.Err, journal.ErrFull) || full != r.Last.IsZero() {
			t.Errorf("commit %d: got %+v", i, r)
		}
	}
}

package memstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestACommitIsReadBack(t *testing.T) {
	s := memstore.New()
	t.Cleanup(func() { s.Close() })
	results, err := s.Commit(t.Context(), []journal.Commit{{
		Space: "user:1", Now: time.Now(), Actor: "system",
		Events: []journal.Event{{Stream: "a", Type: "a.made", Data: []byte(`1`)}},
		Writes: []journal.Write{{Key: "k", Value: []byte(`2`)}},
	}})
	if err != nil || results[0].Conflict != nil {
		t.Fatalf("commit: got %v, %v; want success", results, err)
	}
	page, err := s.Read(t.Context(), "user:1", journal.ReadQuery{})
	if err != nil || len(page.Events) != 1 || string(page.Events[0].Data) != "1" {
		t.Fatalf("read: got %v, %v; want the event", page, err)
	}
	records, err := s.Get(t.Context(), "user:1", "k")
	if err != nil || records[0].Version != results[0].Last {
		t.Fatalf("get: got %v, %v; want version %v", records, err, results[0].Last)
	}
	if got := s.Capabilities().Durability; got != journal.None {
		t.Errorf("durability: got %q, want %q", got, journal.None)
	}
	s.Close()
	if _, err := s.Get(t.Context(), "user:1", "k"); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("get after close: got %v, want ErrClosed", err)
	}
}

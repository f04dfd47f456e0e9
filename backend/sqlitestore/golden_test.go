package sqlitestore_test

import (
	"flag"
	"testing"
	"time"

	"github.com/thole-dev/thole/journal"
)

var golden = flag.String("golden", "", "write a new golden file of the current version to this path")

// TestGoldenFileCanBeMade writes testdata/vN.db when a version is released. Without the
// flag it writes a temporary one.
func TestGoldenFileCanBeMade(t *testing.T) {
	path := *golden
	if path == "" {
		path = t.TempDir() + "/golden.db"
	}
	s := open(t, path, nil)
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	results, err := s.Commit(t.Context(), []journal.Commit{{
		Space: "project:golden", Now: now, Actor: "user:42", Cause: "sess_1",
		Events: []journal.Event{
			{Stream: "thread/a", Type: "thread.created"},
			{Stream: "thread/a", Type: "message.added", Subject: "user:42", Refs: []string{"thrd_1"}, Schema: 2, Data: []byte(`{"text":"grüß dich"}`)},
		},
		Writes: []journal.Write{{Key: "thread/a", Value: []byte(`{"turns":2}`), Expires: now.Add(time.Hour), Notify: true}},
	}})
	if err != nil || results[0].Conflict != nil {
		t.Fatalf("commit: got %v, %v; want success", results, err)
	}
}

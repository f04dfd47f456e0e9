package sqlitestore_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/journal"
)

// du returns the size of all files of the store.
func du(t *testing.T, path string) (total int64) {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) == 0 {
		t.Fatalf("files of %s: got %v, %v", path, files, err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	return total
}

func TestStorageIsAtMostThreeTimesTheContent(t *testing.T) {
	effort.SlowUnderRace(t)
	path := filepath.Join(t.TempDir(), "thole.db")
	s := open(t, path, nil)
	const turns, size = 10_000, 300
	content := strings.Repeat("a word ", size/7+1)[:size]
	stream := "thread/thrd_0123456789abcdef0123456789abcdef"
	// Batches of one commit are the worst case for the log.
	for n := range turns {
		_, err := s.Commit(t.Context(), []journal.Commit{{
			Space: "project:shop", Now: time.Now(), Actor: "user:42", Cause: "sess_0123456789abcdef0123456789abcdef",
			Events: []journal.Event{{Stream: stream, Type: "message.added",
				Data: []byte(`{"id":"turn_0123456789abcdef0123456789abcdef","status":"done","blocks":[{"id":"blk_0123456789abcdef0123456789abcdef","type":"text","content":"` + content + `"}]}`)}},
			Writes: []journal.Write{{Key: stream, Value: []byte(`{"title":"A conversation","status":"idle","visibility":"space","turns":` +
				strings.Repeat("9", 1+n%5) + `,"lineage":[{"stream":"` + stream + `"}]}`)}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	ratio := func() float64 { return float64(du(t, path)) / (turns * size) }
	t.Logf("before a checkpoint: %.2f", ratio())
	if got := ratio(); got > 3 {
		t.Errorf("storage ÷ content before a checkpoint: got %.2f, want at most 3", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("after a checkpoint: %.2f", ratio())
	if got := ratio(); got > 3 {
		t.Errorf("storage ÷ content after a checkpoint: got %.2f, want at most 3", got)
	}
}

func TestTheLogStaysBoundedWhileOthersRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thole.db")
	s := open(t, path, nil)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		for ctx.Err() == nil {
			if _, err := s.Read(ctx, "project:bench", journal.ReadQuery{Limit: 200}); err != nil && !errors.Is(err, context.Canceled) {
				done <- err
				return
			}
		}
		done <- nil
	}()
	fill(t, s, 150, make([]journal.Position, benchThreads))
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	db, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	wal, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	// Twice the limit, when readers have to wait, and a batch.
	if limit := 2*max(1<<20, db.Size()/3) + 1<<20; wal.Size() > limit {
		t.Errorf("log beside a file of %d bytes: got %d bytes, want at most %d", db.Size(), wal.Size(), limit)
	}
}

func TestWhatIsErasedIsInNoFile(t *testing.T) {
	const canary = "canary-7f3a9c"
	for name, purge := range map[string]func(at journal.Position) journal.Purge{
		"all":     func(journal.Position) journal.Purge { return journal.Purge{All: true} },
		"streams": func(journal.Position) journal.Purge { return journal.Purge{Streams: []string{"thread/a"}} },
		"events":  func(at journal.Position) journal.Purge { return journal.Purge{Events: []journal.Position{at}} },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "thole.db")
			s := open(t, path, nil)
			fill(t, s, 3, make([]journal.Position, 100))
			at := commit(t, s, "user:1", "thread/a", `"`+strings.Repeat(canary, 1000)+`"`).Last
			if err := s.Purge(t.Context(), "user:1", purge(at)); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(path + "*")
			if err != nil || len(files) < 2 {
				t.Fatalf("files: got %v, %v", files, err)
			}
			for _, f := range files {
				data, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(data, []byte(canary)) {
					t.Errorf("%s still holds what was erased", filepath.Base(f))
				}
			}
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

package filestore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/internal/faultfs"
	"github.com/thole-dev/thole/journal"
)

// onDisk opens a store on a file system with faults to switch on.
func onDisk(t *testing.T, disk *faultfs.FS) *filestore.Store {
	t.Helper()
	return open(t, "/store", &filestore.Options{FS: disk, Lag: -1})
}

func tryCommit(s *filestore.Store) error {
	_, err := s.Commit(context.Background(), []journal.Commit{
		{Space: "user:1", Events: []journal.Event{{Stream: "a", Type: "note.added", Data: []byte(`1`)}}},
		{Space: "user:2", Writes: []journal.Write{{Key: "k", Value: []byte(`1`)}}},
	})
	return err
}

func TestAFullDiskFailsCommitsUntilThereIsSpace(t *testing.T) {
	disk := faultfs.New(1)
	s := onDisk(t, disk)
	if err := tryCommit(s); err != nil {
		t.Fatal(err)
	}
	disk.Fail(faultfs.Faults{faultfs.NoSpace: 1})
	for range 3 {
		if err := tryCommit(s); !errors.Is(err, journal.ErrFull) || !strings.Contains(err.Error(), "disk is full") {
			t.Fatalf("commit on a full disk: got %v, want an error that says so", err)
		}
	}
	if err := s.Flush(t.Context()); !errors.Is(err, journal.ErrFull) {
		t.Fatalf("flush on a full disk: got %v, want ErrFull", err)
	}
	if got := head(t, s).Last.Seq; got != 1 {
		t.Fatalf("head: got %d, want 1 commit", got)
	}
	disk.Fail(nil)
	if err := tryCommit(s); err != nil {
		t.Fatalf("commit when there is space again: %v", err)
	}
	if got := head(t, s).Last.Seq; got != 2 {
		t.Errorf("head: got %d, want 2 commits", got)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatIsErasedIsInNoFile(t *testing.T) {
	const canary = "canary-7f3a9c"
	for name, purge := range map[string]func(at journal.Position) journal.Purge{
		"all":     func(journal.Position) journal.Purge { return journal.Purge{All: true} },
		"streams": func(journal.Position) journal.Purge { return journal.Purge{Streams: []string{"s"}} },
		"events":  func(at journal.Position) journal.Purge { return journal.Purge{Events: []journal.Position{at}} },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, nil)
			results, err := s.Commit(t.Context(), []journal.Commit{{
				Space: "user:1", Actor: canary, Cause: canary,
				Events: []journal.Event{{Stream: "s", Type: "x.made", Subject: canary, Refs: []string{canary}, Data: []byte(`"` + canary + `"`)}},
				Writes: []journal.Write{{Key: "k", Value: []byte(`"` + canary + `"`)}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			flush(t, s)
			put(t, s, "k", `"harmless"`)
			if err := s.Purge(t.Context(), "user:1", purge(results[0].Last)); err != nil {
				t.Fatal(err)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
			for path, data := range files(t, dir) {
				// An event is gone with its stream; the commit's actor is not.
				if name == "streams" {
					data = bytes.ReplaceAll(data, []byte(`"actor":"`+canary+`","cause":"`+canary+`"`), nil)
				}
				if bytes.Contains(data, []byte(canary)) {
					t.Errorf("%s still holds what was erased", path)
				}
			}
		})
	}
}

// files returns the content of all files below a directory.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("files of %s: got %d, %v", dir, len(all), err)
	}
	return all
}

func TestStorageGrowsWithTheContentOnly(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	const turns, size = 2000, 300
	content := strings.Repeat("a word ", size/7+1)[:size]
	stream := "thread/thrd_0123456789abcdef0123456789abcdef"
	batch := make([]journal.Commit, turns)
	for n := range batch {
		batch[n] = journal.Commit{
			Space: "project:shop", Actor: "user:42", Cause: "sess_0123456789abcdef0123456789abcdef",
			Events: []journal.Event{{Stream: stream, Type: "message.added",
				Data: []byte(`{"id":"turn_0123456789abcdef0123456789abcdef","status":"done","blocks":[{"id":"blk_0123456789abcdef0123456789abcdef","type":"text","content":"` + content + `"}]}`)}},
			Writes: []journal.Write{{Key: stream, Value: fmt.Appendf(nil, `{"title":"A conversation","status":"idle","visibility":"space","turns":%d,"lineage":[{"stream":"%s"}]}`, n, stream)}},
		}
	}
	if _, err := s.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	s.Close()
	total := 0
	for _, data := range files(t, dir) {
		total += len(data)
	}
	ratio := float64(total) / (turns * size)
	t.Logf("storage ÷ content: %.2f", ratio)
	if ratio > 3.5 {
		t.Errorf("storage ÷ content: got %.2f, want at most 3.5", ratio)
	}
}

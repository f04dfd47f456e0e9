package sqlitestore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/journal"
)

const counterSpace = "project:shared"

// helperEnv holds the store's path in a process that the tests start.
const helperEnv = "THOLE_TEST_SQLITE_COUNT"

// helper does the work of such a process and reports whether this is one.
func helper() bool {
	path := os.Getenv(helperEnv)
	if path == "" {
		return false
	}
	s, err := sqlitestore.Open(context.Background(), path, nil)
	if err == nil {
		err = count(s, 8, 25)
	}
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// count adds one to a record n times in each of several goroutines, each time with a
// check of the version it read, and with an event.
func count(s *sqlitestore.Store, goroutines, n int) error {
	errs := make(chan error, goroutines)
	for range goroutines {
		go func() {
			for range n {
				if err := increment(s); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var first error
	for range goroutines {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

func increment(s *sqlitestore.Store) error {
	ctx := context.Background()
	var refused journal.Position // the position of the last conflict
	for {
		records, err := s.Get(ctx, counterSpace, "count")
		if err != nil {
			return err
		}
		n := 0
		if at := records[0].Version; at == refused && !at.IsZero() {
			return fmt.Errorf("a check of version %v was refused, which is still there", at)
		}
		if records[0].Exists() {
			if n, err = strconv.Atoi(string(records[0].Value)); err != nil {
				return err
			}
		}
		results, err := s.Commit(ctx, []journal.Commit{{
			Space: counterSpace, Now: time.Now(),
			Checks: []journal.Check{{Key: "count", At: records[0].Version}},
			Events: []journal.Event{{Stream: "count", Type: "count.rose"}},
			Writes: []journal.Write{{Key: "count", Value: []byte(strconv.Itoa(n + 1))}},
		}})
		if err != nil {
			return err
		}
		if results[0].Conflict == nil {
			return results[0].Err
		}
		refused = records[0].Version
	}
}

// wantCount checks that no increment was lost and that the events are dense.
func wantCount(t *testing.T, s *sqlitestore.Store, want int) {
	t.Helper()
	records, err := s.Get(t.Context(), counterSpace, "count")
	if err != nil || string(records[0].Value) != strconv.Itoa(want) {
		t.Fatalf("count: got %s, %v; want %d", records[0].Value, err, want)
	}
	var seq uint64
	var after journal.Position
	for {
		page, err := s.Read(t.Context(), counterSpace, journal.ReadQuery{After: after})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			if seq++; e.Position.Seq != seq {
				t.Fatalf("seq: got %d, want %d", e.Position.Seq, seq)
			}
		}
		if after = page.Next; after.IsZero() {
			break
		}
	}
	if seq != uint64(want) {
		t.Errorf("events: got %d, want %d", seq, want)
	}
}

func TestTwoStoresOnOneFileLoseNoUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thole.db")
	stores := []*sqlitestore.Store{open(t, path, nil), open(t, path, nil)}
	errs := make(chan error, len(stores))
	for _, s := range stores {
		go func() { errs <- count(s, 16, 10) }()
	}
	for range stores {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range stores {
		wantCount(t, s, 2*16*10)
	}
}

func TestTwoProcessesOnOneFileLoseNoUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thole.db")
	s := open(t, path, nil)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var other strings.Builder
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), helperEnv+"="+path)
	cmd.Stderr = &other
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := count(s, 8, 25); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the other process: %v: %s", err, other.String())
	}
	wantCount(t, s, 2*8*25)
}

func TestWatchTellsOnlyOfCommitsOfOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thole.db")
	ours := open(t, path, &sqlitestore.Options{Poll: time.Millisecond})
	theirs := open(t, path, nil)
	commit(t, theirs, "user:1", "a", `1`)
	commit(t, ours, "user:1", "a", `1`) // it reads the record

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	woken := make(chan string, 1000)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := ours.Capabilities().Hints(ctx, func(space string) { woken <- space }); err != nil {
			t.Errorf("watch: got %v, want nil", err)
		}
	})
	fill(t, ours, 40, make([]journal.Position, 100)) // with a checkpoint in between
	if n := len(woken); n > 0 {
		t.Errorf("hints after our own commits: got %d, want none", n)
	}
	commit(t, theirs, "user:2", "b", `2`)
	select {
	case space := <-woken:
		if space != "" {
			t.Errorf("hint: got %q, want the empty space", space)
		}
	case <-time.After(10 * time.Second):
		t.Error("no hint came after a commit of another store")
	}
	stop()
	wg.Wait()
}

package sqlitestore_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole/journal"
)

// The test brings a store close to the limits of event ids, and beyond them.
func TestAFileIsFullBeyondItsLastSpaceOrPosition(t *testing.T) {
	for _, tt := range []struct {
		name, sql, space string
		fits             int
	}{
		{"spaces", `PRAGMA foreign_keys = OFF; UPDATE space SET id = (1 << 23) - 2; UPDATE stream SET space = (1 << 23) - 2;
			UPDATE event SET id = (((1 << 23) - 2) << 40) + id % (1 << 40)`, "user:", 1},
		{"positions", `UPDATE space SET last = substr(last, 1, 13) || '0001099511627772',
			epochs = replace(epochs, '"last":1}', '"last":1099511627772}')`, "user:1", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "thole.db")
			s := open(t, path, nil)
			commit(t, s, "user:1", "a", `1`)
			s.Close()
			execSQL(t, path, tt.sql)
			s = open(t, path, nil)
			next := func(i int) string {
				if tt.name == "spaces" {
					return tt.space + strings.Repeat("x", i+1)
				}
				return tt.space
			}
			for i := range tt.fits {
				at := commit(t, s, next(i), "a", `2`).Last
				page, err := s.Read(t.Context(), next(i), journal.ReadQuery{Stream: "a", Backward: true, Limit: 1})
				if err != nil || len(page.Events) != 1 || page.Events[0].Position != at {
					t.Fatalf("read: got %v, %v; want the event at %v", page, err, at)
				}
			}
			for range 2 {
				results, err := s.Commit(t.Context(), []journal.Commit{{Space: next(tt.fits), Events: []journal.Event{{Stream: "a", Type: "note.added"}}}})
				if err != nil {
					t.Fatalf("commit beyond the last: got %v, want the error in its result", err)
				}
				if err := results[0].Err; !errors.Is(err, journal.ErrFull) || !strings.Contains(err.Error(), path) {
					t.Fatalf("commit beyond the last: got %v, want ErrFull with the path", err)
				}
			}
			if heads, err := s.Heads(t.Context(), next(tt.fits)); err != nil || (tt.name == "spaces" && !heads[0].Last.IsZero()) {
				t.Errorf("head: got %v, %v; want nothing of the commit that failed", heads, err)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCheckFindsAnEventInTheSpaceOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thole.db")
	s := open(t, path, nil)
	commit(t, s, "user:1", "a", `1`)
	commit(t, s, "user:2", "a", `1`)
	s.Close()
	execSQL(t, path, `UPDATE event SET id = id + (1 << 40) + 1 WHERE id >> 40 = 1`)
	if err := open(t, path, nil).Check(t.Context()); !errors.Is(err, journal.ErrCorrupt) || !strings.Contains(err.Error(), "another space") {
		t.Errorf("check: got %v, want ErrCorrupt that names the events", err)
	}
}

package sqlitestore_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/journal"
)

// A reader of another program keeps a purge from truncating the log. The purge reports
// that; a repeat, or the next open, finishes it.
func TestAPurgeThatCouldNotEraseIsFinishedByTheNext(t *testing.T) {
	const canary = "canary-7f3a9c"
	for name, again := range map[string]func(t *testing.T, s *sqlitestore.Store, path string){
		"repeated": func(t *testing.T, s *sqlitestore.Store, _ string) {
			if err := s.Purge(t.Context(), "user:42", journal.Purge{All: true}); err != nil {
				t.Errorf("repeated: got %v, want that it is done", err)
			}
		},
		"of another space": func(t *testing.T, s *sqlitestore.Store, _ string) {
			if err := s.Purge(t.Context(), "user:43", journal.Purge{All: true}); err != nil {
				t.Errorf("of another space: %v", err)
			}
		},
		"of what never was": func(t *testing.T, s *sqlitestore.Store, _ string) {
			if err := s.Purge(t.Context(), "user:44", journal.Purge{All: true}); !errors.Is(err, journal.ErrNotFound) {
				t.Errorf("of a space that never existed: got %v, want ErrNotFound", err)
			}
		},
		"by Open": func(t *testing.T, _ *sqlitestore.Store, path string) {
			other, err := sqlitestore.Open(t.Context(), path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "t.db")
			s, err := sqlitestore.Open(t.Context(), path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for space, value := range map[string]string{"user:42": canary, "user:43": "x", "user:45": "x"} {
				if _, err := s.Commit(t.Context(), []journal.Commit{{Space: space, Now: time.Now(), Writes: []journal.Write{{Key: "k", Value: []byte(`"` + value + `"`)}}}}); err != nil {
					t.Fatal(err)
				}
			}
			shell, err := sqlite3.Open("file:" + path)
			if err != nil {
				t.Fatal(err)
			}
			defer shell.Close()
			if err := shell.Exec(`BEGIN; SELECT count(*) FROM space`); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				err = s.Purge(short, "user:42", journal.Purge{All: true})
				cancel()
				if err == nil || errors.Is(err, journal.ErrNotFound) {
					t.Fatalf("while somebody reads: got %v, want an error that is not ErrNotFound", err)
				}
			}
			if err := shell.Exec(`COMMIT`); err != nil {
				t.Fatal(err)
			}
			again(t, s, path)
			for _, file := range []string{path, path + "-wal"} {
				if data, err := os.ReadFile(file); err != nil || bytes.Contains(data, []byte(canary)) {
					t.Errorf("%s, %v, still holds what was purged", filepath.Base(file), err)
				}
			}
			if err := s.Purge(t.Context(), "user:42", journal.Purge{All: true}); !errors.Is(err, journal.ErrNotFound) {
				t.Errorf("when all is done: got %v, want ErrNotFound", err)
			}
			if spaces, err := s.Spaces(t.Context(), journal.SpacesQuery{}); err != nil || len(spaces) == 0 || spaces[0] != "user:43" && spaces[0] != "user:45" {
				t.Errorf("spaces: got %v, %v", spaces, err)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

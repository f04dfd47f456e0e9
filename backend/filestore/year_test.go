package filestore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/journal"
)

func TestARecordWhoseTimeCannotBeWrittenIsCorruptAndHarmsNothingElse(t *testing.T) {
	dir := t.TempDir()
	s, err := filestore.Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "k", `1`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "user", "1", "records", "k.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(text), `"version"`, `"expires": "9999-12-31T23:59:59-01:00", "version"`, 1)
	if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = filestore.Open(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Get(t.Context(), "user:1", "k"); !errors.Is(err, journal.ErrCorrupt) {
		t.Errorf("got %v, want ErrCorrupt", err)
	}
	if _, err := s.Commit(t.Context(), []journal.Commit{{Space: "user:2", Writes: []journal.Write{{Key: "k", Value: []byte(`1`)}}}}); err != nil {
		t.Errorf("another space: %v", err)
	}
}

//go:build unix

package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
)

func TestWhatIsDeniedIsNeitherReadNorWrittenNorListed(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, ".state"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, ".state", "db"), []byte("secret"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "own.db"), []byte("secret"), 0o600))
	must(t, os.Symlink(".state", filepath.Join(dir, "link")))
	must(t, os.Link(filepath.Join(dir, "own.db"), filepath.Join(dir, "twin")))
	s, err := Open(dir, &Options{Deny: []string{filepath.Join(dir, ".state"), filepath.Join(dir, "own.db"), filepath.Join(dir, "own.db-wal"), t.TempDir()}})
	must(t, err)
	t.Cleanup(func() { s.Close() })

	for _, name := range []string{".state/db", "link/db", "./.state/../.state/db", "own.db", "twin"} {
		if _, _, err := s.ReadFile(name); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("ReadFile(%s) = %v, want ErrInvalid", name, err)
		}
		if _, _, err := s.ReadSettled(name); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("ReadSettled(%s) = %v, want ErrInvalid", name, err)
		}
		if _, err := s.Replace(name, Hash([]byte("secret")), []byte("forged"), nil); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("Replace(%s) = %v, want ErrInvalid", name, err)
		}
	}
	for _, name := range []string{".state/new", "link/new", ".state/deep/new", "own.db-wal"} {
		if _, err := s.Create(name, []byte("forged"), nil); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("Create(%s) = %v, want ErrInvalid", name, err)
		}
	}
	for _, name := range []string{".state", "link"} {
		if _, _, err := s.List(name, nil); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("List(%s) = %v, want ErrInvalid", name, err)
		}
	}
	if list, _, err := s.List(".", nil); err != nil || len(list) != 0 {
		t.Errorf("List = %+v, %v; want nothing", list, err)
	}
	if _, err := s.Create("state/db", []byte("mine"), nil); err != nil {
		t.Error(err)
	}
	if !strings.Contains(s.Confined(), "read and change the store") {
		t.Errorf("Confined = %q; want that commands reach the store", s.Confined())
	}
}

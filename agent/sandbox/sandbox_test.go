//go:build unix

package sandbox

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/thole-dev/thole"
)

func TestPathsCannotEscape(t *testing.T) {
	s := open(t, nil)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"abs": outside, "file": outside + "/secret", "rel": "../" + filepath.Base(outside)} {
		if err := os.Symlink(to, filepath.Join(s.Dir(), link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{
		"", "/etc/passwd", "..", "../x", "a/../../x", "abs/secret", "file", "rel/secret",
		"a\x00b", "\xff", strings.Repeat("n", 300),
	} {
		if _, _, err := s.ReadFile(name); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("ReadFile(%.20q) = %v, want ErrInvalid", name, err)
		}
		if _, err := s.Create(name, nil, nil); !errors.Is(err, thole.ErrInvalid) && !errors.Is(err, thole.ErrExists) {
			t.Errorf("Create(%.20q) = %v, want ErrInvalid or ErrExists", name, err)
		}
		if _, err := s.Replace(name, Hash([]byte("x")), []byte("y"), nil); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("Replace(%.20q) = %v, want ErrInvalid", name, err)
		}
		if name != "" && name != "file" {
			if _, err := s.Exec(t.Context(), "true", &ExecOptions{Dir: name}); err == nil {
				t.Errorf("Exec in %.20q worked", name)
			}
		}
	}
	if got, _ := os.ReadFile(filepath.Join(outside, "secret")); string(got) != "x" {
		t.Errorf("the file outside became %q", got)
	}
	if in, err := os.ReadDir(outside); err != nil || len(in) != 1 {
		t.Errorf("outside holds %v, %v; want the one file", in, err)
	}
	wantNoLeftovers(t, s)
}

func TestCleanGivesOneSpelling(t *testing.T) {
	for in, want := range map[string]string{"a/b": "a/b", "./a//b/": "a/b", "a/../b": "b", ".": ".", "ü/😀": "ü/😀"} {
		if got, err := Clean(in); err != nil || got != want {
			t.Errorf("Clean(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestReadRefusesWhatIsNoFileOfReasonableSize(t *testing.T) {
	s := open(t, nil)
	if err := syscall.Mkfifo(s.Dir()+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fifo", "."} {
		if _, _, err := s.ReadFile(name); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("ReadFile(%s) = %v, want ErrInvalid", name, err)
		}
	}
	write(t, s, "file", "x")
	for _, name := range []string{"fifo", "file"} {
		if list, _, err := s.List(name, nil); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("List(%s) = %v, %v; want ErrInvalid", name, list, err)
		}
	}
	if _, _, err := s.ReadFile("none"); !errors.Is(err, thole.ErrNotFound) {
		t.Errorf("ReadFile of an absent file = %v, want ErrNotFound", err)
	}
	big := bytes.Repeat([]byte("x"), MaxFileBytes+1)
	write(t, s, "big", string(big))
	if _, _, err := s.ReadFile("big"); !errors.Is(err, thole.ErrTooLarge) {
		t.Errorf("ReadFile of %d bytes = %v, want ErrTooLarge", len(big), err)
	}
	if _, err := s.Create("new", big, nil); !errors.Is(err, thole.ErrTooLarge) {
		t.Errorf("Create of %d bytes = %v, want ErrTooLarge", len(big), err)
	}
}

func TestBinaryIsTold(t *testing.T) {
	for in, want := range map[string]bool{"": false, "text\r\nü😀": false, "a\x00b": true, "caf\xe9": true, "\x89PNG\r\n\x1a\n\x00": true} {
		if got := Binary([]byte(in)); got != want {
			t.Errorf("Binary(%q) = %v, want %v", in, got, want)
		}
	}
}

func TestListShowsTheStructureWithinItsLimit(t *testing.T) {
	s := open(t, nil)
	for _, name := range []string{"src/app.ts", "src/ui/button.ts", "node_modules/x/index.js", "README", ".thole-1-x"} {
		if err := os.MkdirAll(filepath.Dir(s.Dir()+"/"+name), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, s, name, "1234")
	}
	if err := os.Symlink("..", s.Dir()+"/up"); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, dir string
		o         *ListOptions
		want      []string
		more      bool
	}{
		{"all", ".", nil, []string{"README", "node_modules/", "src/", "src/app.ts", "src/ui/", "src/ui/button.ts", "up@"}, false},
		{"a part", "src", nil, []string{"src/app.ts", "src/ui/", "src/ui/button.ts"}, false},
		{"one level", "src", &ListOptions{Depth: 1}, []string{"src/app.ts", "src/ui/"}, false},
		{"limited", ".", &ListOptions{Limit: 2}, []string{"README", "node_modules/"}, true},
		{"exactly", "src", &ListOptions{Limit: 3}, []string{"src/app.ts", "src/ui/", "src/ui/button.ts"}, false},
	}
	for _, tt := range tests {
		list, more, err := s.List(tt.dir, tt.o)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		var got []string
		for _, e := range list {
			switch {
			case e.Dir:
				e.Path += "/"
			case e.Link:
				e.Path += "@"
			case e.Size != 4:
				t.Errorf("%s: size of %s = %d, want 4", tt.name, e.Path, e.Size)
			}
			got = append(got, e.Path)
		}
		if !reflect.DeepEqual(got, tt.want) || more != tt.more {
			t.Errorf("%s: List = %v, more %v; want %v, %v", tt.name, got, more, tt.want, tt.more)
		}
	}
	if _, _, err := s.List("none", nil); !errors.Is(err, thole.ErrNotFound) {
		t.Errorf("List of nothing = %v, want ErrNotFound", err)
	}
	if left, err := s.Leftovers(); err != nil || !reflect.DeepEqual(left, []string{".thole-1-x"}) {
		t.Errorf("Leftovers = %v, %v; want the work file", left, err)
	}
}

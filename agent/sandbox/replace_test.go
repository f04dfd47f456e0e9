//go:build unix

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole"
)

func TestReplaceKeepsModeAndFollowsLinks(t *testing.T) {
	s := open(t, nil)
	write(t, s, "run.sh", "old")
	if err := errors.Join(os.Chmod(s.Dir()+"/run.sh", 0o751), os.Mkdir(s.Dir()+"/d", 0o755), os.Symlink("../run.sh", s.Dir()+"/d/link")); err != nil {
		t.Fatal(err)
	}
	hash, err := s.Replace("d/link", Hash([]byte("old")), []byte("new"), nil)
	if err != nil || hash != Hash([]byte("new")) {
		t.Fatalf("Replace = %s, %v; want the hash of the new content", hash, err)
	}
	wantFile(t, s, "run.sh", "new")
	if fi, err := os.Stat(s.Dir() + "/run.sh"); err != nil || fi.Mode().Perm() != 0o751 {
		t.Errorf("mode = %v, %v; want 0751", fi.Mode(), err)
	}
	if fi, err := os.Lstat(s.Dir() + "/d/link"); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", fi.Mode(), err)
	}
	wantNoLeftovers(t, s)
}

func TestReplaceOfAStaleVersionIsRefused(t *testing.T) {
	s := open(t, nil)
	write(t, s, "f", "theirs")
	wantChanged(t, replace(s, "f", "base", "ours"), "theirs")
	wantFile(t, s, "f", "theirs")
	if err := replace(s, "none", "base", "ours"); !errors.Is(err, thole.ErrNotFound) {
		t.Errorf("Replace of an absent file = %v, want ErrNotFound", err)
	}
	wantNoLeftovers(t, s)
}

func TestCreateNeverOverwrites(t *testing.T) {
	var s *Sandbox
	race := false
	s = open(t, &Options{BeforeRename: func(name string) {
		if race {
			os.WriteFile(s.Dir()+"/"+name, []byte("theirs"), 0o644)
		}
	}})
	hash, err := s.Create("a/b/new", []byte("one"), nil)
	if err != nil || hash != Hash([]byte("one")) {
		t.Fatalf("Create = %s, %v", hash, err)
	}
	wantFile(t, s, "a/b/new", "one")
	_, err = s.Create("a/b/new", []byte("two"), nil)
	wantChanged(t, err, "one")
	race = true
	_, err = s.Create("raced", []byte("two"), nil)
	wantChanged(t, err, "theirs")
	wantFile(t, s, "raced", "theirs")
	wantNoLeftovers(t, s)
}

// A person edits at the worst moment, in each way that editors write.
func TestAnEditDuringReplaceIsNeverLost(t *testing.T) {
	ways := map[string]func(path string) error{
		"in place": func(path string) error { return os.WriteFile(path, []byte("theirs"), 0o644) },
		"by rename": func(path string) error {
			return errors.Join(os.WriteFile(path+"~", []byte("theirs"), 0o644), os.Rename(path+"~", path))
		},
		"moved away": func(path string) error {
			return errors.Join(os.Rename(path, path+".bak"), os.WriteFile(path, []byte("theirs"), 0o644))
		},
	}
	for how, way := range ways {
		t.Run("between check and rename/"+how, func(t *testing.T) {
			var s *Sandbox
			s = open(t, &Options{BeforeRename: func(name string) { must(t, way(s.Dir()+"/"+name)) }})
			write(t, s, "f", "base")
			wantChanged(t, replace(s, "f", "base", "ours"), "theirs")
			wantFile(t, s, "f", "theirs")
			wantNoLeftovers(t, s)
		})
		t.Run("after the rename/"+how, func(t *testing.T) {
			s := open(t, nil)
			s.o.AfterRename = func(name string) { must(t, way(s.Dir()+"/"+name)) }
			write(t, s, "f", "base")
			if err := replace(s, "f", "base", "ours"); err != nil {
				t.Fatal(err) // if ours came first, theirs replaced it, whether they knew of it or not
			}
			wantFile(t, s, "f", "theirs")
			wantNoLeftovers(t, s)
		})
	}
}

func TestAFileRemovedDuringReplaceStaysRemoved(t *testing.T) {
	var s *Sandbox
	s = open(t, &Options{BeforeRename: func(name string) { must(t, os.Remove(s.Dir()+"/"+name)) }})
	write(t, s, "f", "base")
	err := replace(s, "f", "base", "ours")
	if changed := (*ChangedError)(nil); !errors.As(err, &changed) || !changed.Missing {
		t.Errorf("Replace = %v, want a ChangedError that says Missing", err)
	}
	if _, err := os.Stat(s.Dir() + "/f"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is back: %v", err)
	}
	wantNoLeftovers(t, s)
}

// The editor opened the old file before the exchange and writes to it after the
// exchange.
func TestAnEditThroughAnOpenFileIsNeverLost(t *testing.T) {
	var s *Sandbox
	var f *os.File
	closed := make(chan struct{})
	s = open(t, &Options{BeforeRename: func(name string) {
		var err error
		f, err = os.OpenFile(s.Dir()+"/"+name, os.O_WRONLY|os.O_TRUNC, 0)
		must(t, err)
	}})
	s.o.AfterRename = func(string) {
		go func() {
			defer close(closed)
			fmt.Fprint(f, "the")
			fmt.Fprint(f, "irs")
			f.Close()
		}()
	}
	write(t, s, "f", "base")
	wantChanged(t, replace(s, "f", "base", "ours"), "theirs")
	<-closed
	wantFile(t, s, "f", "theirs")
	wantNoLeftovers(t, s)
}

func TestAFileHeldOpenForWritingIsNotReplaced(t *testing.T) {
	s := open(t, nil)
	write(t, s, "log", "base")
	f, err := os.OpenFile(s.Dir()+"/log", os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	defer f.Close()
	if err := replace(s, "log", "base", "ours"); !errors.Is(err, thole.ErrConflict) {
		t.Errorf("Replace = %v, want ErrConflict", err)
	}
	wantFile(t, s, "log", "base")
	wantNoLeftovers(t, s)
}

// Two edits by others: one before the exchange, one before the exchange is undone. The
// second stays where it was written, the first is kept beside it.
func TestASecondEditWhilePuttingBackIsKept(t *testing.T) {
	var s *Sandbox
	s = open(t, &Options{BeforeRename: func(name string) { write(t, s, name, "first") }})
	s.o.AfterRename = func(name string) { write(t, s, name, "second") }
	write(t, s, "f", "base")
	err := replace(s, "f", "base", "ours")
	wantChanged(t, err, "second")
	wantFile(t, s, "f", "second")
	changed := (*ChangedError)(nil)
	if errors.As(err, &changed); !strings.HasPrefix(changed.Kept, "f.thole-kept-") {
		t.Fatalf("Kept = %q, want a name beside f", changed.Kept)
	}
	wantFile(t, s, changed.Kept, "first")
	wantNoLeftovers(t, s)
}

func TestWithoutExchangeAStaleEditIsStillRefused(t *testing.T) {
	s := open(t, nil)
	s.plainRename = true
	_, err := s.Create("f", []byte("base"), nil)
	must(t, err)
	_, err = s.Create("f", []byte("again"), nil)
	wantChanged(t, err, "base")
	must(t, replace(s, "f", "base", "ours"))
	wantChanged(t, replace(s, "f", "base", "late"), "ours")
	wantFile(t, s, "f", "ours")
	wantNoLeftovers(t, s)
}

func TestEditorsInTurnLoseNothing(t *testing.T) {
	s := open(t, nil)
	write(t, s, "f", "")
	const editors, edits = 6, 20
	var wg sync.WaitGroup
	for i := range editors {
		wg.Go(func() {
			for j := range edits {
				for {
					old, hash, err := s.ReadFile("f")
					if err == nil {
						_, err = s.Replace("f", hash, fmt.Appendf(old, "%d-%d\n", i, j), nil)
					}
					if err == nil {
						break
					}
					if !errors.Is(err, thole.ErrConflict) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	got, _, err := s.ReadFile("f")
	must(t, err)
	there := map[string]int{}
	for line := range strings.Lines(string(got)) {
		there[line]++
	}
	for i := range editors {
		for j := range edits {
			if line := fmt.Sprintf("%d-%d\n", i, j); there[line] != 1 {
				t.Errorf("line %q is in the file %d times, want once", line, there[line])
			}
		}
	}
	wantNoLeftovers(t, s)
}

func replace(s *Sandbox, name, base, content string) error {
	_, err := s.Replace(name, Hash([]byte(base)), []byte(content), nil)
	return err
}

func wantChanged(t *testing.T, err error, content string) {
	t.Helper()
	changed := (*ChangedError)(nil)
	if !errors.As(err, &changed) || !errors.Is(err, thole.ErrConflict) {
		t.Fatalf("error = %v, want a ChangedError", err)
	}
	if string(changed.Content) != content || changed.Got != Hash([]byte(content)) {
		t.Errorf("ChangedError has %q (%s), want %q", changed.Content, changed.Got, content)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/internal/effort"
)

// TestMain skips all tests if there is no git, unless everything must be tested.
func TestMain(m *testing.M) {
	if _, err := exec.LookPath("git"); err != nil && !effort.All() {
		fmt.Println("skipped: git is not installed")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func Example() {
	main()
	// Output:
	// git diff:
	//   -      "theme": "light",
	//   +      "theme": "dark",
	// after git checkout: {"theme":"light","window":50}
	// a reader of what is gone is told so: true
	// the journal says: space.adopted by user:hand in generation 0002
	// after an edit: {"theme":"blue","window":50}
	// the journal says: space.adopted by user:hand in generation 0003
}

func TestNamesThatFileSystemsConfuseSurviveGit(t *testing.T) {
	effort.SlowUnderRace(t)
	names := []string{
		"Foo", "foo", "FOO", "a", "a/b", "a/b/", "a.json", "a.json/b", ".", "..", "./a", "a.", "a..", ".git/config", "con", "CON.txt", "nul",
		"ä", "a\u0308", "straße", "STRASSE", "a b", "a%2fb", "a!b", strings.Repeat("x", 255), strings.Repeat("X", 255), strings.Repeat("ü", 127), strings.Repeat("/", 255),
	}
	ctx := t.Context()
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "clone")
	repo := repository(dir)
	if _, err := repo.git("init", "-q"); err != nil {
		t.Fatal(err)
	}
	err := with(ctx, dir, func(sp *thole.Space) error {
		var writes []thole.Write
		for i, name := range names {
			writes = append(writes, thole.Write{Key: key(name), Value: fmt.Appendf(nil, "%d", i)})
		}
		_, err := sp.Commit(ctx, thole.Commit{Writes: writes})
		return err
	})
	if err == nil {
		err = repo.commit("Names")
	}
	if err == nil {
		_, err = repo.git("clone", "-q", dir, copied)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := filestore.Open(context.Background(), copied, &filestore.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, name := range names {
		records, err := s.Get(ctx, "project:shop", key(name))
		if err != nil || string(records[0].Value) != fmt.Sprint(i) {
			t.Errorf("record %.40q in the clone: got %s, %v; want %d", name, records[0].Value, err, i)
		}
	}
}

// key returns the name below app/, or the name itself if that would be too long.
func key(name string) string {
	if len(name) > 250 {
		return name
	}
	return "app/" + name
}

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

const touches = `
turns:
  - prompt: Touch it
    steps:
      - tool_calls: [{name: Bash, input: {command: "echo touched >> log.txt"}}]
      - text: Touched.
`

// There are two folders, each with an agent of its own, and one store.
func TestEachDevWorksOnItsFolderForItsSpaceOnly(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "thole.db")
	a := servertest.Start(t, servertest.Setup{Store: store, Script: touches, Args: []string{"--space", "project:a"}})
	b := servertest.Start(t, servertest.Setup{Store: store, Script: touches, Args: []string{"--space", "project:b"}})
	const runs = 5
	for range runs {
		ours, theirs := a.Ask("/v1/spaces/project:a", "Touch it"), a.Ask("/v1/spaces/project:b", "Touch it")
		for _, path := range []string{ours, theirs} {
			if r := b.Ended(path, 30*time.Second); r.Status != "succeeded" {
				t.Fatalf("run %s: %+v", path, r)
			}
		}
	}
	for _, s := range []*servertest.Server{a, b} {
		log, err := os.ReadFile(filepath.Join(s.Project, "log.txt"))
		if n := strings.Count(string(log), "\n"); err != nil || n != runs {
			t.Errorf("%d runs worked in %s, want the %d of its space (%v)", n, s.Project, runs, err)
		}
	}
}

func TestAFolderWhoseNameIsNoSpacesNeedsOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "two words")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, use := range []string{"dev", "agent"} {
		servertest.MustFail(t, dir, []string{"XDG_STATE_HOME=" + t.TempDir()}, []string{use, "--dir", "."}, "choose one with --space")
	}
}

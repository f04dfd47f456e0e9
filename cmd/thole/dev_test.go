package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const touches = `
turns:
  - prompt: Touch it
    steps:
      - tool_calls: [{name: Bash, input: {command: "echo touched >> log.txt"}}]
      - text: Touched.
`

// Two folders, each with an agent of its own, and one store.
func TestEachDevWorksOnItsFolderForItsSpaceOnly(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "thole.db")
	a := startServer(t, setup{Store: store, Script: touches, Args: []string{"--space", "project:a"}})
	b := startServer(t, setup{Store: store, Script: touches, Args: []string{"--space", "project:b"}})
	const runs = 5
	for range runs {
		ours, theirs := a.ask("/v1/spaces/project:a", "Touch it"), a.ask("/v1/spaces/project:b", "Touch it")
		for _, path := range []string{ours, theirs} {
			if r := b.ended(path, 30*time.Second); r.Status != "succeeded" {
				t.Fatalf("run %s: %+v", path, r)
			}
		}
	}
	for _, s := range []*server{a, b} {
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
		mustFail(t, dir, []string{"XDG_STATE_HOME=" + t.TempDir()}, []string{use, "--dir", "."}, "choose one with --space")
	}
}

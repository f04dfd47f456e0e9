package main_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// runState is what of a run these tests look at.
type runState struct {
	ID, Thread, Status, Error, Parent string
	Cancel                            struct{ Cause string }
}

// script reads one of the examples' scripts.
func script(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "scripts", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ask starts a run in a new thread and returns its path.
func (s *server) ask(space, prompt string) (path string) {
	s.t.Helper()
	var thread struct{ ID string }
	s.Must("POST", space+"/threads", map[string]any{}, &thread)
	var r runState
	s.Must("POST", space+"/threads/"+thread.ID+"/runs", map[string]any{"prompt": prompt}, &r)
	return space + "/threads/" + thread.ID + "/runs/" + r.ID
}

// run reads a run.
func (s *server) run(path string) (r runState) {
	s.t.Helper()
	s.Must("GET", path, nil, &r)
	return r
}

// ended waits until a run has ended and returns it.
func (s *server) ended(path string, limit time.Duration) (r runState) {
	s.t.Helper()
	eventually(s.t, limit, "the run ends", func() bool {
		r = s.run(path)
		return !slices.Contains([]string{"queued", "running", "waiting"}, r.Status)
	})
	return r
}

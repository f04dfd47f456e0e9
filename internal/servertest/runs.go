package servertest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Workers returns the processes that an agent's commands started: all that work in the
// project's folder, however they tried to escape.
func (s *Server) Workers() (pids []int) {
	for _, pid := range s.Processes() {
		dir, err := os.Readlink("/proc/" + pid + "/cwd")
		if n, _ := strconv.Atoi(pid); err == nil && strings.HasPrefix(dir, s.Project) && n != s.cmd.Process.Pid {
			pids = append(pids, n)
		}
	}
	return pids
}

// Converse starts a thread with one run and waits until the run has succeeded.
func (s *Server) Converse(ctx context.Context, space, prompt string) error {
	r, err := s.Do(ctx, "POST", "/v1/spaces/"+space+"/threads", map[string]any{})
	if err != nil {
		return err
	}
	var thread struct{ ID string }
	if err := json.Unmarshal(r.Body, &thread); err != nil {
		return err
	}
	r, err = s.Do(ctx, "POST", "/v1/spaces/"+space+"/threads/"+thread.ID+"/runs", map[string]any{"prompt": prompt}, "Accept", "text/event-stream")
	if err != nil {
		return err
	}
	_, last, _ := strings.Cut(string(r.Body), "event: complete\n")
	if !strings.Contains(last, `"status":"succeeded"`) {
		return fmt.Errorf("%s: %d %s", prompt, r.Status, r.Body)
	}
	return nil
}

// RunState is the part of a run that these tests use.
type RunState struct {
	ID, Thread, Status, Error, Parent string
	Cancel                            struct{ Cause string }
}

// Script reads one of the examples' scripts.
func Script(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "scripts", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Ask starts a run in a new thread and returns its path.
func (s *Server) Ask(space, prompt string) (path string) {
	s.T.Helper()
	var thread struct{ ID string }
	s.Must("POST", space+"/threads", map[string]any{}, &thread)
	var r RunState
	s.Must("POST", space+"/threads/"+thread.ID+"/runs", map[string]any{"prompt": prompt}, &r)
	return space + "/threads/" + thread.ID + "/runs/" + r.ID
}

// Run reads a run.
func (s *Server) Run(path string) (r RunState) {
	s.T.Helper()
	s.Must("GET", path, nil, &r)
	return r
}

// Ended waits until a run has ended and returns it.
func (s *Server) Ended(path string, limit time.Duration) (r RunState) {
	s.T.Helper()
	Eventually(s.T, limit, "the run ends", func() bool {
		r = s.Run(path)
		return !slices.Contains([]string{"queued", "running", "waiting"}, r.Status)
	})
	return r
}

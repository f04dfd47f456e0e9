package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

const drainSpace = "/v1/spaces/project:drain"

const drainScript = `
turns:
  - prompt: Sleep
    steps:
      - tool_calls:
          - name: Bash
            input: {command: "echo $$ > started; (setsid sleep 300 &); sleep 300", description: Sleep}
      - text: I slept.
  - prompt: Talk for ever
    steps:
      - {delay_ms: 300, text: "One word, and then another one, and one more, and so on and on, for what seems to be a very long time, until everybody has gone home and the lights are out, and then some more words for good measure, and one last one, and it goes on and on and on, for those who have stayed and want to hear the end of it."}
  - prompt: Talk for a moment
    steps:
      - {delay_ms: 500, text: "One word, and then another one, and one more, and then the end of it."}
`

// drained starts a server with running runs and a watcher, and returns the runs' paths
// and how the watcher's stream ends.
func drained(t *testing.T, s *servertest.Server, prompts ...string) (runs []string, stream <-chan error) {
	t.Helper()
	ended, started := make(chan error, 1), make(chan bool, len(prompts))
	watch := s.URL + drainSpace + "/events"
	go func() {
		atWork := map[string]bool{}
		ended <- servertest.Watch(t.Context(), s.HTTP, watch, "", func(f servertest.Frame) error {
			var e servertest.Event
			if err := json.Unmarshal([]byte(f.Data), &e); err != nil {
				return err
			}
			if (f.Event == "tool.started" || f.Event == "message.delta") && !atWork[e.Stream] {
				atWork[e.Stream] = true
				started <- true
			}
			return nil
		})
	}()
	for _, prompt := range prompts {
		var thread, run struct{ ID string }
		s.Must("POST", drainSpace+"/threads", map[string]any{}, &thread)
		s.Must("POST", drainSpace+"/threads/"+thread.ID+"/runs", map[string]any{"prompt": prompt}, &run)
		runs = append(runs, drainSpace+"/threads/"+thread.ID+"/runs/"+run.ID)
	}
	for range prompts {
		select {
		case <-started:
		case <-time.After(10 * time.Second):
			t.Fatal("the runs did not start")
		}
	}
	return runs, ended
}

// gone checks what a server leaves after it was asked to end.
func gone(t *testing.T, s *servertest.Server, stream <-chan error) {
	t.Helper()
	if code := s.Wait(20 * time.Second); code != 0 {
		t.Errorf("exit code: got %d, want 0\n%s", code, s.LogTail())
	}
	if err := <-stream; !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the watcher's stream: got %v, want a good end", err)
	}
	if pids := s.Processes(); len(pids) > 0 {
		t.Errorf("processes left: %v", pids)
	}
	servertest.MustBeHealthy(t, s.Store)
	s.Start()
}

// endedAs checks a run's end.
func endedAs(t *testing.T, s *servertest.Server, run, status, cause string) {
	t.Helper()
	var got struct {
		Status string
		Cancel struct{ Cause string }
	}
	s.Must("GET", run, nil, &got)
	if got.Status != status || got.Cancel.Cause != cause {
		t.Errorf("the run after the shutdown: got %s by %q, want %s by %q", got.Status, got.Cancel.Cause, status, cause)
	}
}

func TestSIGTERMLetsRunsEndThatEndInTime(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{Script: drainScript, Args: []string{"--grace", "1m"}})
	runs, stream := drained(t, s, "Talk for a moment", "Talk for a moment")
	s.Signal(syscall.SIGTERM)
	servertest.Eventually(t, 20*time.Second, "/readyz says 503", func() bool {
		r, err := s.Do(t.Context(), http.MethodGet, "/readyz", nil)
		return err == nil && r.Status == http.StatusServiceUnavailable
	})
	gone(t, s, stream)
	for _, run := range runs {
		endedAs(t, s, run, "succeeded", "")
	}
}

func TestSIGTERMCancelsRunsThatDoNotEndInTime(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{Script: drainScript, Args: []string{"--grace", "500ms"}})
	runs, stream := drained(t, s, "Sleep", "Talk for ever")
	servertest.Eventually(t, 10*time.Second, "the command runs", func() bool { return servertest.Exists(filepath.Join(s.Project, "started")) })
	var next struct{ ID string }
	s.Must("POST", path.Dir(runs[0]), map[string]any{"prompt": "Talk for a moment"}, &next)
	busy := make(chan int)
	go func(ctx context.Context) {
		n := 0
		for ; ctx.Err() == nil; n++ {
			if _, err := s.Do(ctx, http.MethodGet, drainSpace+"/kv/a/b", nil); err != nil {
				break // the server is gone
			}
		}
		busy <- n
	}(t.Context())
	s.Signal(syscall.SIGTERM)
	code := s.Wait(20 * time.Second)
	t.Logf("exit code %d; %d requests of another client meanwhile", code, <-busy)
	gone(t, s, stream)
	for _, run := range runs {
		endedAs(t, s, run, "cancelled", "shutdown")
	}
	servertest.Eventually(t, 10*time.Second, "the run that waited in the queue is done after the restart", func() bool {
		return strings.Contains(string(s.Must("GET", path.Join(path.Dir(runs[0]), next.ID), nil, nil).Body), `"status":"succeeded"`)
	})
}

func TestASecondSIGTERMEndsTheWait(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{Script: drainScript, Args: []string{"--grace", "1h"}})
	runs, stream := drained(t, s, "Sleep", "Talk for ever")
	servertest.Eventually(t, 10*time.Second, "the command runs", func() bool { return servertest.Exists(filepath.Join(s.Project, "started")) })
	s.Signal(syscall.SIGTERM)
	servertest.Eventually(t, 20*time.Second, "/readyz says 503", func() bool {
		r, err := s.Do(t.Context(), http.MethodGet, "/readyz", nil)
		return err == nil && r.Status == http.StatusServiceUnavailable
	})
	s.Signal(syscall.SIGTERM)
	gone(t, s, stream)
	for _, run := range runs {
		endedAs(t, s, run, "cancelled", "shutdown")
	}
}

//go:build linux

package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

const cancelSpace = "/v1/spaces/project:cancel"

// stubborn starts a run whose command forks twice with setsid and sleeps, and waits
// until all of its processes run.
func stubborn(s *servertest.Server) (path string, pids []int) {
	s.T.Helper()
	for _, name := range []string{"started.txt", "pids.txt"} {
		os.Remove(filepath.Join(s.Project, name))
	}
	path = s.Ask(cancelSpace, "Start a stubborn server")
	servertest.Eventually(s.T, 20*time.Second, "the command has started all its processes", func() bool {
		noted, _ := os.ReadFile(filepath.Join(s.Project, "pids.txt"))
		return servertest.Exists(s.Project, "started.txt") && strings.Count(string(noted), "\n") == 2
	})
	pids = s.Workers()
	if len(pids) < 3 { // the shell and two that left its session
		s.T.Fatalf("processes of the command: got %v, want at least 3", pids)
	}
	return path, pids
}

// allGone reports whether none of the processes is left.
func allGone(pids []int) bool {
	return !slices.ContainsFunc(pids, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
}

func TestCancelEndsEveryProcessAndNothingStartsAfterwards(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{Script: servertest.Script(t, "slow.yaml")})
	for range 5 {
		path, pids := stubborn(s)
		s.Must("POST", path+"/cancel", map[string]any{"cause": "user"}, nil)
		r := s.Ended(path, 10*time.Second)
		if r.Status != "cancelled" || r.Cancel.Cause != "user" {
			t.Errorf("run: got %+v, want cancelled by user", r)
		}
		if !allGone(pids) {
			t.Errorf("processes %v: some outlive their run, which is %s", pids, r.Status)
		}
		nothingAfter(s, r)
		if again, err := s.Do(t.Context(), "POST", path+"/cancel", nil); err != nil || again.Status != 200 {
			t.Errorf("a second cancel: got %d %s, %v", again.Status, again.Body, err)
		}
	}
	if left := s.Workers(); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if servertest.Exists(s.Project, "after.txt") {
		t.Error("a tool began after the run was cancelled")
	}
	s.Terminate()
	servertest.MustBeHealthy(t, s.Store)
}

// nothingAfter checks that a cancelled run's tools have ended and that the journal has
// nothing of it after its end.
func nothingAfter(s *servertest.Server, r servertest.RunState) {
	s.T.Helper()
	finished, open := false, 0
	for _, e := range s.Events("project:cancel") {
		var data struct{ Run, Status, Cause string }
		json.Unmarshal(e.Data, &data) // not all have these
		if e.Cause != r.ID && data.Run != r.ID {
			continue
		}
		switch {
		case e.Type == "run.finished":
			finished = true
			if data.Status != "cancelled" || data.Cause != "user" {
				s.T.Errorf("run.finished: got %s", e.Data)
			}
		case finished && e.Type != "decision.resolved":
			s.T.Errorf("%s came after the end of its run: %s", e.Type, e.Text)
		case e.Type == "tool.started":
			open++
		case e.Type == "tool.completed", e.Type == "tool.failed":
			open--
		}
	}
	if !finished || open != 0 {
		s.T.Errorf("events of run %s: finished %v, %d tools without an end", r.ID, finished, open)
	}
}

// A worker elsewhere ignores the cancel.
func TestALateFinishDoesNotOverwriteACancel(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{})
	const space = "/v1/spaces/user:remote" // dev's own agent does not work here
	path := s.Ask(space, "Work")
	var claim struct{ Token string }
	s.Must("POST", "/v1/runs/claim", map[string]any{"spaces": []string{"user:remote"}}, &claim)
	s.Must("POST", path+"/cancel", map[string]any{"cause": "user"}, nil)
	fence := []string{"Thole-Fence", claim.Token}
	for range 2 {
		r, err := s.Do(t.Context(), "POST", path+"/finish", map[string]any{"status": "succeeded"}, fence...)
		if err != nil || r.Status >= 500 {
			t.Fatalf("finish: got %d %s, %v", r.Status, r.Body, err)
		}
		if got := s.Run(path); got.Status != "cancelled" || got.Cancel.Cause != "user" {
			t.Errorf("run after a late finish: got %+v, want cancelled by user", got)
		}
	}
	r, err := s.Do(t.Context(), "POST", path+"/heartbeat", nil, fence...)
	if err != nil || r.Status != 409 {
		t.Errorf("a heartbeat after the end: got %d %s, %v", r.Status, r.Body, err)
	}
}

func TestCancelReachesSubAgents(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{Script: servertest.Script(t, "team.yaml")})
	path := s.Ask(cancelSpace, "Let a sub-agent sleep")
	servertest.Eventually(t, 20*time.Second, "the sub-agent's command runs", func() bool { return servertest.Exists(s.Project, "started.txt") })
	pids := s.Workers()
	s.Must("POST", path+"/cancel", nil, nil)
	if r := s.Ended(path, 10*time.Second); r.Status != "cancelled" || r.Cancel.Cause != "user" {
		t.Errorf("run: got %+v, want cancelled by user", r)
	}
	if !allGone(pids) {
		t.Errorf("processes %v: some outlive the run above theirs", pids)
	}
	children := 0
	for _, e := range s.Events("project:cancel") {
		var data struct{ Run, Parent string }
		json.Unmarshal(e.Data, &data) // not all have these
		if e.Type != "run.started" || data.Parent == "" {
			continue
		}
		children++
		thread := strings.TrimPrefix(e.Stream, "thread/")
		if r := s.Run(cancelSpace + "/threads/" + thread + "/runs/" + data.Run); r.Status != "cancelled" {
			t.Errorf("the sub-agent's run: got %+v, want cancelled", r)
		}
	}
	if children != 1 || servertest.Exists(s.Project, "after.txt") {
		t.Errorf("got %d sub-agents, want 1; a tool after: %v", children, servertest.Exists(s.Project, "after.txt"))
	}
	s.Terminate()
	servertest.MustBeHealthy(t, s.Store)
}

// BenchmarkCancel measures the time from the POST until the last process of a command
// that forked twice is gone.
//
//	go test -run '^$' -bench Cancel -benchtime 100x ./cmd/thole
func BenchmarkCancel(b *testing.B) {
	s := servertest.Start(b, servertest.Setup{Script: servertest.Script(b, "slow.yaml")})
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		path, pids := stubborn(s)
		b.StartTimer()
		begin := time.Now()
		s.Must("POST", path+"/cancel", map[string]any{"cause": "user"}, nil)
		for !allGone(pids) {
			if time.Since(begin) > 20*time.Second {
				b.Fatalf("processes %v do not end", pids)
			}
		}
		took = append(took, time.Since(begin))
		b.StopTimer()
		if r := s.Ended(path, 10*time.Second); r.Status != "cancelled" || r.Cancel.Cause != "user" {
			b.Fatalf("run: got %+v, want cancelled by user", r)
		}
		b.StartTimer()
	}
	slices.Sort(took)
	at := func(p int) float64 { return float64(took[(len(took)-1)*p/100].Microseconds()) / 1000 }
	b.ReportMetric(at(50), "p50-ms")
	b.ReportMetric(at(99), "p99-ms")
	b.ReportMetric(float64(len(took)), "cancels")
}

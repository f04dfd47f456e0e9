//go:build linux

package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const cancelSpace = "/v1/spaces/project:cancel"

// workers are the processes that an agent's commands started: they work in the
// project's folder, whatever they did to be forgotten.
func (s *server) workers() (pids []int) {
	for _, pid := range s.Processes() {
		dir, err := os.Readlink("/proc/" + pid + "/cwd")
		if n, _ := strconv.Atoi(pid); err == nil && strings.HasPrefix(dir, s.Project) && n != s.cmd.Process.Pid {
			pids = append(pids, n)
		}
	}
	return pids
}

// stubborn starts a run whose command forks twice with setsid and sleeps, and
// waits until all of its processes are there.
func (s *server) stubborn() (path string, pids []int) {
	s.t.Helper()
	for _, name := range []string{"started.txt", "pids.txt"} {
		os.Remove(filepath.Join(s.Project, name))
	}
	path = s.ask(cancelSpace, "Start a stubborn server")
	eventually(s.t, 20*time.Second, "the command has started all its processes", func() bool {
		noted, _ := os.ReadFile(filepath.Join(s.Project, "pids.txt"))
		return exists(s.Project, "started.txt") && strings.Count(string(noted), "\n") == 2
	})
	pids = s.workers()
	if len(pids) < 3 { // the shell and two that left its session
		s.t.Fatalf("processes of the command: got %v, want at least 3", pids)
	}
	return path, pids
}

// allGone reports whether none of the processes is there any more.
func allGone(pids []int) bool {
	return !slices.ContainsFunc(pids, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
}

func TestCancelEndsEveryProcessAndNothingStartsAfterwards(t *testing.T) {
	s := startServer(t, setup{Script: script(t, "slow.yaml")})
	for range 5 {
		path, pids := s.stubborn()
		s.Must("POST", path+"/cancel", map[string]any{"cause": "user"}, nil)
		r := s.ended(path, 10*time.Second)
		if r.Status != "cancelled" || r.Cancel.Cause != "user" {
			t.Errorf("run: got %+v, want cancelled by user", r)
		}
		if !allGone(pids) {
			t.Errorf("processes %v: some outlive their run, which is %s", pids, r.Status)
		}
		s.nothingAfter(r)
		if again, err := s.Do(t.Context(), "POST", path+"/cancel", nil); err != nil || again.Status != 409 || again.Code() != "conflict" {
			t.Errorf("a second cancel: got %d %s, %v", again.Status, again.Body, err)
		}
	}
	if left := s.workers(); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if exists(s.Project, "after.txt") {
		t.Error("a tool began after the run was cancelled")
	}
	s.Terminate()
	mustBeHealthy(t, s.Store)
}

// nothingAfter checks that a cancelled run's tools have ended and that nothing
// of it came after its end.
func (s *server) nothingAfter(r runState) {
	s.t.Helper()
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
				s.t.Errorf("run.finished: got %s", e.Data)
			}
		case finished && e.Type != "decision.resolved":
			s.t.Errorf("%s came after the end of its run: %s", e.Type, e.text)
		case e.Type == "tool.started":
			open++
		case e.Type == "tool.completed", e.Type == "tool.failed":
			open--
		}
	}
	if !finished || open != 0 {
		s.t.Errorf("events of run %s: finished %v, %d tools without an end", r.ID, finished, open)
	}
}

// TestALateFinishDoesNotOverwriteACancel has a worker elsewhere that takes no
// notice.
func TestALateFinishDoesNotOverwriteACancel(t *testing.T) {
	s := startServer(t, setup{})
	const space = "/v1/spaces/user:remote" // where dev's own agent does not work
	path := s.ask(space, "Work")
	var claim struct{ Token string }
	s.Must("POST", "/v1/runs/claim", map[string]any{"spaces": []string{"user:remote"}}, &claim)
	s.Must("POST", path+"/cancel", map[string]any{"cause": "user"}, nil)
	fence := []string{"Thole-Fence", claim.Token}
	for range 2 {
		r, err := s.Do(t.Context(), "POST", path+"/finish", map[string]any{"status": "succeeded"}, fence...)
		if err != nil || r.Status >= 500 {
			t.Fatalf("finish: got %d %s, %v", r.Status, r.Body, err)
		}
		if got := s.run(path); got.Status != "cancelled" || got.Cancel.Cause != "user" {
			t.Errorf("run after a late finish: got %+v, want cancelled by user", got)
		}
	}
	r, err := s.Do(t.Context(), "POST", path+"/heartbeat", nil, fence...)
	if err != nil || r.Status != 409 {
		t.Errorf("a heartbeat after the end: got %d %s, %v", r.Status, r.Body, err)
	}
}

func TestCancelReachesSubAgents(t *testing.T) {
	s := startServer(t, setup{Script: script(t, "team.yaml")})
	path := s.ask(cancelSpace, "Let a sub-agent sleep")
	eventually(t, 20*time.Second, "the sub-agent's command runs", func() bool { return exists(s.Project, "started.txt") })
	pids := s.workers()
	s.Must("POST", path+"/cancel", nil, nil)
	if r := s.ended(path, 10*time.Second); r.Status != "cancelled" || r.Cancel.Cause != "user" {
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
		if r := s.run(cancelSpace + "/threads/" + thread + "/runs/" + data.Run); r.Status != "cancelled" {
			t.Errorf("the sub-agent's run: got %+v, want cancelled", r)
		}
	}
	if children != 1 || exists(s.Project, "after.txt") {
		t.Errorf("got %d sub-agents, want 1; a tool after: %v", children, exists(s.Project, "after.txt"))
	}
	s.Terminate()
	mustBeHealthy(t, s.Store)
}

// BenchmarkCancel measures from the POST to the moment when the last process
// of a command that forked twice is gone.
//
//	go test -run '^$' -bench Cancel -benchtime 100x ./cmd/thole
func BenchmarkCancel(b *testing.B) {
	s := startServer(b, setup{Script: script(b, "slow.yaml")})
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		path, pids := s.stubborn()
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
		if r := s.ended(path, 10*time.Second); r.Status != "cancelled" || r.Cancel.Cause != "user" {
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

package main_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

const killEffectScript = `
turns:
  - prompt: Bash
    steps:
      - capture: {n: 'Bash (n[0-9]+)'}
        tool_calls: [{name: Bash, input: {command: "echo {{n}} >> effects; sleep 0.3"}}]
      - text: Done.
  - prompt: Write
    steps:
      - capture: {n: 'Write (n[0-9]+)'}
        tool_calls: [{name: Write, input: {file_path: "{{n}}.txt", content: "new\n"}}]
      - text: Done.
  - prompt: Edit
    steps:
      - capture: {n: 'Edit (n[0-9]+)'}
        tool_calls:
          - {name: Read, input: {file_path: "{{n}}.txt"}}
          - {name: Edit, input: {file_path: "{{n}}.txt", old_string: one, new_string: one one}}
      - text: Done.
`

// The server is killed with SIGKILL after the first commit of a run, then after the
// second commit of another run, and so on to the last. After the run was resumed, each
// effect is there once, or the model was told that nobody knows.
func TestAnEffectHappensOnceWhereverTheServerIsKilled(t *testing.T) {
	servertest.Faults(t)
	lines := func(v *victim, file, line string) int {
		data, _ := os.ReadFile(filepath.Join(v.Project, file))
		n := 0
		for l := range strings.Lines(string(data)) {
			if l == line+"\n" {
				n++
			}
		}
		return n
	}
	for tool, count := range map[string]func(v *victim, name string) int{
		"Bash":  func(v *victim, name string) int { return lines(v, "effects", name) },
		"Write": func(v *victim, name string) int { return lines(v, name+".txt", "new") },
		"Edit": func(v *victim, name string) int {
			data, _ := os.ReadFile(filepath.Join(v.Project, name+".txt"))
			return strings.Count(string(data), "one") - 1
		},
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, servertest.Setup{Script: killEffectScript, Lease: 2 * time.Second})
			v := &victim{s, servertest.NewRecorder(t, s, killSpace), 0}
			kills, unknown := 0, 0
			for n := 1; ; n++ {
				name := "n" + strconv.Itoa(n)
				if tool == "Edit" {
					if err := os.WriteFile(filepath.Join(v.Project, name+".txt"), []byte("one\n"), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				r := v.begin(tool + " " + name)
				if !v.killAfter(r, n, func() bool { return count(v, name) == 1 }) {
					break
				}
				kills++
				if told := v.goOn(r); told {
					unknown++
				} else if got := count(v, name); got != 1 {
					t.Errorf("killed after commit %d: the effect happened %d times, and nobody was told that it is unknown", n, got)
				}
				if got := count(v, name); got > 1 {
					t.Errorf("killed after commit %d: the effect happened %d times", n, got)
				}
			}
			servertest.MustBeHealthy(t, v.Store)
			if kills < 5 {
				t.Errorf("killed %d times; a run has more commits", kills)
			}
			t.Logf("%s: killed %d times, %d effects unknown", tool, kills, unknown)
		})
	}
}

// killAfter kills the server when it sees the n-th event of a run, and starts it again.
// If that event is the intent, it waits for the effect, so that the kill comes between
// the effect and its outcome. It returns false if the run ended before.
func (v *victim) killAfter(r runView, n int, effect func() bool) bool {
	v.T.Helper()
	found, ended, nth := 0, false, ""
	v.rec.Await(20*time.Second, "a commit of the run", 1, func(e servertest.Event) bool {
		if strings.Contains(e.Text, r.Thread) || strings.Contains(e.Text, r.ID) {
			if found++; found == n {
				nth = e.Type
			}
			ended = ended || e.Type == "run.finished"
		}
		return found >= n || ended
	})
	if found < n {
		return false
	}
	if nth == "decision.planned" {
		servertest.Eventually(v.T, 10*time.Second, "the effect", effect)
	}
	v.Kill()
	<-v.rec.Ended
	servertest.Eventually(v.T, 10*time.Second, "the end of what the killed server had started", func() bool { return len(v.Processes()) == 0 })
	v.Start()
	v.rec.Attach()
	return true
}

// goOn resumes a run that was interrupted, and reports whether one of its effects is
// unknown.
func (v *victim) goOn(r runView) (unknown bool) {
	v.T.Helper()
	if v.ended(r).Status == "crashed" {
		next := v.run(r.Thread, map[string]any{"resumed_from": r.ID})
		if got := v.ended(next); got.Status != "succeeded" {
			v.T.Fatalf("the other run: got %s %s, want succeeded", got.Status, got.Error)
		}
	}
	statuses := v.statuses(r, "")
	if slices.Contains(statuses, "planned") {
		v.T.Errorf("decisions of the killed run: %v; want an outcome for each", statuses)
	}
	return slices.Contains(statuses, "unknown")
}

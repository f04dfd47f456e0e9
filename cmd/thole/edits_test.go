package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

const editScript = `
turns:
  - prompt: '/Change agent \w from \d+ to \d+/'
    steps:
      - tool_calls: [{name: Read, input: {file_path: shared.txt}}]
      - text: Now I change the one line that you asked for.
        delay_ms: 1
        capture: {who: 'Change agent (\w) from', from: 'Change agent \w from (\d+)', to: 'from \d+ to (\d+)'}
        tool_calls: [{name: Edit, input: {file_path: shared.txt, old_string: "agent {{who}}: {{from}}\n", new_string: "agent {{who}}: {{to}}\n"}}]
      - text: That is all.
  - prompt: Change it slowly
    steps:
      - tool_calls: [{name: Read, input: {file_path: shared.txt}}]
      - text: I will change the line that you asked for, but first I think about it for a while.
        delay_ms: 200
        tool_calls: [{name: Edit, input: {file_path: shared.txt, old_string: "agent A: 0\n", new_string: "agent A: mine\n"}}]
      - expect: [CONFLICT, "yours, not applied"]
        text: So it was not applied.
`

const editSpace = "/v1/spaces/project:edits"

// sharedFile is the file that two agents and a person edit.
func sharedFile(t *testing.T, s *servertest.Server) string {
	t.Helper()
	path := filepath.Join(s.Project, "shared.txt")
	gap := strings.Repeat("nobody changes this line\n", 5)
	if err := os.WriteFile(path, []byte("agent A: 0\n"+gap+"agent B: 0\n"+gap), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Two runs edit one file at the same time, while a person appends lines to it: slowly,
// quickly and like a program. A change of a run that is not in the file afterwards was
// reported by that run as not applied; none of the person's lines may be missing.
func TestEditsOfAPersonAndTwoAgentsAreAllInTheFile(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{Script: editScript})
	path := sharedFile(t, s)
	const rounds = 50
	value := map[string]int{"A": 0, "B": 0}
	person, notApplied := 0, 0
	for round := range rounds {
		runs := map[string]string{}
		for who, n := range value {
			runs[who] = s.Ask(editSpace, fmt.Sprintf("Change agent %s from %d to %d", who, n, n+1))
		}
		typing := time.NewTicker([]time.Duration{20, 8, 1}[round%3] * time.Millisecond)
		for open := true; open; {
			<-typing.C
			person++
			appendLine(t, path, fmt.Sprintf("person %d\n", person))
			open = slices.ContainsFunc([]string{"A", "B"}, func(who string) bool {
				return slices.Contains([]string{"queued", "running"}, s.Run(runs[who]).Status)
			})
		}
		typing.Stop()
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for who, run := range runs {
			if r := s.Run(run); r.Status != "succeeded" {
				t.Fatalf("round %d, agent %s: got %+v\n%s", round, who, r, s.LogTail())
			}
			if strings.Contains(string(now), fmt.Sprintf("agent %s: %d\n", who, value[who]+1)) {
				value[who]++
				continue
			}
			notApplied++
			saysNotApplied(s, run)
		}
	}
	hasAllLines(s, path, person)
	conflicts := 0
	for _, e := range s.Events("project:edits") {
		if e.Type == "file.conflict" && strings.Contains(e.Text, `"diff"`) {
			conflicts++
		}
	}
	if conflicts < notApplied {
		t.Errorf("%d edits were not applied, but there are only %d file.conflict events", notApplied, conflicts)
	}
	t.Logf("%d rounds: %d edits of a person, %d of agents, %d more that were reported as not applied", rounds, person, value["A"]+value["B"], notApplied)
	if value["A"]+value["B"] == 0 {
		t.Error("no edit of an agent was ever applied")
	}
	if left, _ := filepath.Glob(filepath.Join(s.Project, ".thole-*")); len(left) > 0 {
		t.Errorf("work files left: %v", left)
	}
	s.Terminate()
	servertest.MustBeHealthy(t, s.Store)
}

// hasAllLines looks for every line of the person: in the file or, if it was written
// while another line was being put back, in a file beside it that a run named.
func hasAllLines(s *servertest.Server, path string, person int) {
	s.T.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		s.T.Fatal(err)
	}
	kept, err := filepath.Glob(path + ".thole-kept-*")
	if err != nil {
		s.T.Fatal(err)
	}
	for _, k := range kept {
		more, err := os.ReadFile(k)
		if err != nil {
			s.T.Fatal(err)
		}
		text = append(text, more...)
		if !slices.ContainsFunc(s.Events("project:edits"), func(e servertest.Event) bool { return strings.Contains(e.Text, filepath.Base(k)) }) {
			s.T.Errorf("%s was kept, but nobody was told", k)
		}
	}
	there := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^person \d+$`).FindAllString(string(text), -1) {
		there[line] = true
	}
	for n := 1; n <= person; n++ {
		if !there[fmt.Sprintf("person %d", n)] {
			s.T.Errorf("the person's line %d is lost", n)
		}
	}
}

func appendLine(t *testing.T, path, line string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(line); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// saysNotApplied checks that a run's Edit failed and reported that, to its user too.
func saysNotApplied(s *servertest.Server, run string) {
	s.T.Helper()
	thread, _, _ := strings.Cut(run, "/runs/")
	body := string(s.Must("GET", thread+"/messages", nil, nil).Body)
	if !regexp.MustCompile(`[Nn]othing of your change`).MatchString(body) {
		s.T.Errorf("an edit is not in the file, and the thread does not say so: %s", body)
	}
}

// The agent's line is changed after it was read and before it is written.
func TestAnEditThatConflictsSaysExactlyWhatWasNotApplied(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{Script: editScript})
	path := sharedFile(t, s)
	run := s.Ask(editSpace, "Change it slowly")
	count := func(typ string) (n int, data json.RawMessage) {
		for _, e := range s.Events("project:edits") {
			if e.Type == typ {
				n, data = n+1, e.Data
			}
		}
		return n, data
	}
	servertest.Eventually(t, 20*time.Second, "the agent has read the file", func() bool { n, _ := count("tool.completed"); return n == 1 })
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	theirs := strings.Replace(string(text), "agent A: 0\n", "agent A: yours\n", 1) + "and this\n"
	if err := os.WriteFile(path, []byte(theirs), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := s.Ended(run, 20*time.Second); r.Status != "succeeded" {
		t.Fatalf("run: got %+v", r)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != theirs {
		t.Errorf("the file: got %q, %v; want the person's", now, err)
	}
	n, data := count("file.conflict")
	var conflict struct {
		Path     string
		Ours     string `json:"ours_hash"`
		Theirs   string `json:"theirs_hash"`
		Rejected json.RawMessage
	}
	if err := json.Unmarshal(data, &conflict); err != nil || n != 1 || conflict.Path != "shared.txt" || conflict.Ours == conflict.Theirs {
		t.Errorf("file.conflict: got %d, %s, %v", n, data, err)
	}
	if !strings.Contains(string(conflict.Rejected), "agent A: mine") {
		t.Errorf("file.conflict does not hold what was not applied: %s", data)
	}
	saysNotApplied(s, run)
	s.Terminate()
	servertest.MustBeHealthy(t, s.Store)
}

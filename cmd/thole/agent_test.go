package main_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

func TestTheAgentTellsThePromptsThatItsScriptAnswers(t *testing.T) {
	got := servertest.Command(t, t.TempDir(), []string{"XDG_STATE_HOME=" + t.TempDir()}, "agent", "hi")
	for _, prompt := range []string{`"Create a button component"`, `"Make it blue"`, `"Add a click handler"`, "--model"} {
		if got.Code == 0 || !strings.Contains(got.Err, prompt) {
			t.Errorf("exit status %d, which does not tell of %s: %s", got.Code, prompt, got.Err)
		}
	}
}

func TestTheAgentSaysWhereItLookedForWhatToGoOnWith(t *testing.T) {
	const id = "_019f3a5e0c7d7b4e9a51c7e2f0a4b8d6"
	dir, env := t.TempDir(), []string{"XDG_STATE_HOME=" + t.TempDir()}
	onThread, onRun := []string{"agent", "--thread", "thrd" + id, "hi"}, []string{"agent", "--resume", "run" + id}
	servertest.MustFail(t, dir, env, onThread, "no store") // and makes none
	servertest.MustFail(t, dir, env, onRun, "no store")
	servertest.Command(t, dir, env, "agent", "hi")
	for _, args := range [][]string{onThread, onRun} {
		servertest.MustFail(t, dir, env, append(args, "--space", "project:shop"), "not found in project:shop", "--space", "--store")
	}
	servertest.MustFail(t, dir, env, append(onRun, "hi"), "--resume goes on with what the run was asked")
	servertest.MustFail(t, dir, env, append(onThread, "--resume", "run"+id), "thread", "resume")
}

// Who asks for the second turn first learns what to do, and is not shown what the model
// was told.
func TestTheSampleSaysWhatToDoOutOfItsOrder(t *testing.T) {
	env := []string{"XDG_STATE_HOME=" + t.TempDir()}
	dir := t.TempDir()
	for prompt, says := range map[string]string{
		"hi":                        "in the sample project, which `thole dev` lays out",
		"Create a button component": "this folder lacks its files",
		"Make it blue":              `ask "Create a button component" to begin anew`,
		"Add a click handler":       `ask "Create a button component" to begin anew`,
	} {
		got := servertest.Command(t, dir, env, "agent", prompt)
		if got.Code == 0 || !strings.Contains(got.Err, says) || strings.Contains(got.Err, "You are a coding agent") {
			t.Errorf("%s: exit status %d, want one that says %q: %s", prompt, got.Code, says, got.Err)
		}
	}
}

func TestTheLineExitOrQuitEndsAConversation(t *testing.T) {
	for _, word := range []string{"exit", "quit"} {
		cmd := exec.CommandContext(t.Context(), servertest.Program(), "agent")
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
		in, err := cmd.StdinPipe() // stays open, as on a terminal
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, "\n"+word+"\n"); err != nil {
			t.Fatal(err)
		}
		hung := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		if err := cmd.Wait(); !hung.Stop() || err != nil {
			t.Errorf("%s: %v, want that it ends well", word, err)
		}
	}
}

// scripted returns a folder with a model's script s.yaml and a project p.
func scripted(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "p"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTheAgentPrintsTheLastWordsAlthoughTheRunHasEnded(t *testing.T) {
	dir := scripted(t, "turns:\n  - prompt: go\n    steps: [{text: alpha beta the end}]\n")
	for _, store := range []string{"mem:", "sqlite:s.db"} {
		for range 15 {
			got := servertest.Command(t, dir, nil, "agent", "--dir", "p", "--model", "script:s.yaml", "--store", store, "go")
			if want := "alpha beta the end\n"; got.Code != 0 || got.Out != want {
				t.Fatalf("%s: exit status %d, output %q, want %q: %s", store, got.Code, got.Out, want, got.Err)
			}
		}
	}
}

// Nobody reads the output until the run has ended.
func TestTheAgentPrintsAllThatTheModelSaidToASlowReader(t *testing.T) {
	var text strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&text, "word%05d ", i)
	}
	text.WriteString("the end")
	dir := scripted(t, "turns:\n  - prompt: go\n    steps: [{text: "+text.String()+"}]\n")
	cmd := exec.CommandContext(t.Context(), servertest.Program(), "agent", "--dir", "p", "--model", "script:s.yaml", "--store", "sqlite:s.db", "go")
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, time.Minute, "the run has ended", func() bool {
		log, _ := servertest.CLI(t.Context(), "log", "project:p", "--store", "sqlite:"+filepath.Join(dir, "s.db"), "--types", "run.finished")
		return strings.Contains(log, "run.finished")
	})
	got, err := io.ReadAll(out)
	if waited := cmd.Wait(); err != nil || waited != nil {
		t.Fatal(err, waited)
	}
	if want := text.String() + "\n"; string(got) != want {
		t.Errorf("got %d bytes that end in %q, want %d, each once", len(got), got[max(0, len(got)-20):], len(want))
	}
}

// Another conversation in the space uses a tool while the agent waits for its own.
func TestTheAgentShowsItsOwnRunAndSubAgentsOnly(t *testing.T) {
	dir := scripted(t, `
turns:
  - prompt: own
    steps:
      - tool_calls: [{name: Bash, input: {command: "touch waits; until test -e go; do sleep 0.01; done"}}]
      - tool_calls: [{name: Task, input: {prompt: below}}]
      - text: own words
  - prompt: below
    steps: [{tool_calls: [{name: Read, input: {file_path: none}}]}, {text: words from below}]
  - prompt: other
    steps: [{tool_calls: [{name: Bash, input: {command: "true other"}}]}, {text: other words}]
`)
	agent := func(prompt string) []string {
		return []string{"agent", "--dir", "p", "--model", "script:s.yaml", "--store", "sqlite:s.db", prompt}
	}
	cmd := exec.CommandContext(t.Context(), servertest.Program(), agent("own")...)
	var out strings.Builder
	cmd.Dir, cmd.Stdout = dir, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, time.Minute, "the agent waits", func() bool { return servertest.Exists(filepath.Join(dir, "p"), "waits") })
	if got := servertest.Command(t, dir, nil, agent("other")...); strings.Count(got.Out, "other") != 2 {
		t.Errorf("the other conversation: %+v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "p", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"· Bash", "· Task", "· Read", "  ! ", "words from below", "own words"} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("want %q once in %s", want, &out)
		}
	}
	if strings.Contains(out.String(), "other") {
		t.Errorf("another conversation is in %s", &out)
	}
}

package main_test

import (
	"io"
	"os"
	"os/exec"
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

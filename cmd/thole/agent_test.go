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

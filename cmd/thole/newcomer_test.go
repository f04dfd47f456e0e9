package main_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

func TestAServerThatCannotStartLeavesNothingBehind(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	for _, args := range []string{
		"dev --listen " + l.Addr().String(), "serve --listen " + l.Addr().String(), "dev --listen nowhere",
		"dev --model foo", "dev --dir none", "dev --store bogus://x", "dev --space x", "agent --dir none hi", "agent --model foo hi",
	} {
		dir, state := t.TempDir(), t.TempDir()
		servertest.MustFail(t, dir, []string{"XDG_STATE_HOME=" + state}, strings.Fields(args))
		for _, dir := range []string{dir, state} {
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("thole %s left %v behind (%v)", args, left, err)
			}
		}
	}
}

func TestDevSaysWhatToDoNextInTheSpaceThatItServes(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "shop"), 0o755); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":                             "tail project:sample ",
		"--dir shop":                   "tail project:shop ",
		"--dir shop --space project:*": "tail project:shop ",
		"--dir shop --space user:42":   "tail user:42 ",
	} {
		cmd := exec.CommandContext(t.Context(), servertest.Program(), append(strings.Fields("dev --listen 127.0.0.1:0"), strings.Fields(args)...)...)
		cmd.Dir = dir
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := untilListening(t, out)
		cmd.Process.Kill()
		cmd.Wait()
		if !strings.Contains(said, want) {
			t.Errorf("dev %s: got %s, want %q in it", args, said, want)
		}
	}
}

func TestDevTellsOfARunThatNobodyTakes(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{})
	for space, says := range map[string]string{
		"project:a": `a run in project:a waits for a worker of agent "nobody"; the only agent here is "coder"`,
		"user:a":    "a run in user:a waits for a worker elsewhere; the agent here takes those in project:*",
	} {
		var thread struct{ ID string }
		s.Must("POST", "/v1/spaces/"+space+"/threads", map[string]any{}, &thread)
		ask := map[string]any{"prompt": "Hello"}
		if space == "project:a" {
			ask["agent"] = "nobody"
		}
		s.Must("POST", "/v1/spaces/"+space+"/threads/"+thread.ID+"/runs", ask, nil)
		servertest.Eventually(t, 10*time.Second, "the terminal to say: "+says, func() bool {
			return strings.Contains(s.LogTail(), says)
		})
	}
}

// untilListening returns what a server says until it listens.
func untilListening(t *testing.T, out io.Reader) string {
	t.Helper()
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "listening on ") {
			return said.String()
		}
	}
	t.Fatalf("it never listened: %s", said.String())
	return ""
}

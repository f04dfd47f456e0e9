//go:build linux

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole/internal/servertest"
)

// A command runs on a pseudo-terminal of script(1), which every Linux has.
func TestATerminalGetsTextAndAPipeGetsJSON(t *testing.T) {
	dir := t.TempDir()
	on := func(args string) string {
		cmd := exec.CommandContext(t.Context(), "script", "-qec", servertest.Program()+" "+args, "/dev/null")
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s (script needs a pseudo-terminal: is /dev/pts mounted?)", args, err, out)
		}
		return string(out)
	}
	if got := on("version"); !strings.HasPrefix(got, "thole ") {
		t.Errorf("on a terminal: got %q, want text", got)
	}
	if got := on("version --json"); !strings.HasPrefix(got, "{") {
		t.Errorf("on a terminal with --json: got %q, want JSON", got)
	}
	if got := servertest.Command(t, dir, nil, "version").Out; !strings.HasPrefix(got, "{") {
		t.Errorf("through a pipe: got %q, want JSON", got)
	}
}

// A terminal must not get control sequences that others wrote.
func TestWhatAModelSaysDoesNotSteerTheTerminal(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script.yaml")
	evil := `a\e]0;title\a b\e[31m c\x9b2J d\u202ed e\re`
	text := "turns:\n  - prompt: Go\n    steps:\n      - text: \"" + evil + "\"\n"
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "p"), 0o755); err != nil {
		t.Fatal(err)
	}
	store := "sqlite:" + filepath.Join(dir, "thole.db")
	for _, args := range []string{
		"agent --dir p --store " + store + " --model script:" + script + " Go",
		"log project:p --store " + store,
		"get project:p --store " + store,
	} {
		cmd := exec.CommandContext(t.Context(), "script", "-qec", servertest.Program()+" "+args, "/dev/null")
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
		said := strings.ReplaceAll(string(out), "\r\n", "\n") // the terminal adds the \r
		if i := strings.IndexAny(said, "\x1b\a\r\u009b\u202e"); i >= 0 {
			t.Errorf("thole %s printed %q", args, said[i:min(len(said), i+20)])
		}
	}
}

//go:build linux

package main_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestATerminalGetsTextAndAPipeGetsJSON runs a command on a pseudo-terminal of
// script(1), which every Linux has.
func TestATerminalGetsTextAndAPipeGetsJSON(t *testing.T) {
	dir := t.TempDir()
	on := func(args string) string {
		cmd := exec.CommandContext(t.Context(), "script", "-qec", program+" "+args, "/dev/null")
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
	if got := command(t, dir, nil, "version").Out; !strings.HasPrefix(got, "{") {
		t.Errorf("through a pipe: got %q, want JSON", got)
	}
}

package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Outcome is a command's output and exit.
type Outcome struct {
	Out, Err string
	Code     int
}

// Command runs a command of the program in a folder, with additional environment
// variables, and ends the test if the command takes too long.
func Command(t testing.TB, dir string, env []string, args ...string) Outcome {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errOut
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !hung.Stop() {
		t.Fatalf("thole %s hung\n%s%s", strings.Join(args, " "), out.String(), errOut.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return Outcome{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

// MustFail runs a command that must fail, with a message that contains each of says and
// without other output.
func MustFail(t *testing.T, dir string, env, args []string, says ...string) {
	t.Helper()
	got := Command(t, dir, env, args...)
	if got.Code != 1 || got.Out != "" {
		t.Errorf("thole %v: exit code %d, output %q; want 1 and none", args, got.Code, got.Out)
	}
	for _, s := range says {
		if !strings.Contains(got.Err, s) {
			t.Errorf("thole %v: %q does not say %q", args, got.Err, s)
		}
	}
	if strings.Contains(got.Err, "panic") || strings.Contains(got.Err, "goroutine") {
		t.Errorf("thole %v: %s", args, got.Err)
	}
}

// CLI runs a command of the program and returns what it printed.
func CLI(ctx context.Context, args ...string) (string, error) {
	return CLIOf(ctx, program, args...)
}

func CLIOf(ctx context.Context, program string, args ...string) (string, error) {
	var errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("thole %s: %w: %s", strings.Join(args, " "), err, errOut.String())
	}
	return string(out), err
}

// MustBeHealthy runs thole doctor on a store; it must find no problem.
func MustBeHealthy(t testing.TB, store string) {
	t.Helper()
	if out, err := CLI(t.Context(), "doctor", "--store", store, "--json"); err != nil {
		t.Errorf("doctor: %v\n%s", err, out)
	}
}

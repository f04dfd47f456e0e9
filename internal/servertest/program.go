// Package servertest drives the program thole from outside, over HTTP and its command
// line, as any other program would: it starts and kills servers, sends requests,
// watches, and cuts connections.
package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/internal/effort"
)

// program is the path of the program under test. Main sets it before any test runs.
var program string

// Program returns the path of the program under test.
func Program() string { return program }

// Main is the TestMain of cmd/thole: it builds the program, under the race detector if
// the tests run under it, and runs the tests. A goroutine that is left fails them.
func Main(m *testing.M) {
	dir, err := os.MkdirTemp("", "thole-test-")
	if err == nil {
		program = filepath.Join(dir, "thole")
		build := exec.Command("go", "build", "-o", program, fmt.Sprintf("-race=%v", effort.Race), ".")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the program under test:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// Faults skips a test that kills, pauses or cuts off servers, or lets many clients
// contend: it takes long. It runs in make test, and under the race detector in make
// soak.
func Faults(t testing.TB) {
	t.Helper()
	effort.AllOnly(t)
	effort.SlowUnderRace(t)
}

//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

// A server that is paused for longer than the lease of its run counts as dead, and
// another may do the run's work: by then its command must be gone.
func TestACommandDoesNotOutliveTheLeaseOfAPausedServer(t *testing.T) {
	const lease = 3 * time.Second
	s := servertest.Start(t, servertest.Setup{Lease: lease, Script: `turns:
  - prompt: Wait
    steps:
      - tool_calls: [{name: Bash, input: {command: "echo $$ > pid; (setsid sleep 300 &); sleep 300"}}]
      - text: Done.
`})
	var thread struct{ ID string }
	s.Must("POST", "/v1/spaces/project:p/threads", map[string]any{}, &thread)
	s.Must("POST", "/v1/spaces/project:p/threads/"+thread.ID+"/runs", map[string]any{"prompt": "Wait"}, nil)
	commands := func() (n int) {
		dirs, _ := filepath.Glob("/proc/[0-9]*/cwd")
		for _, dir := range dirs {
			if to, err := os.Readlink(dir); err == nil && to == s.Project {
				n++
			}
		}
		return n
	}
	servertest.Eventually(t, 20*time.Second, "the command", func() bool { return servertest.Exists(s.Project, "pid") && commands() >= 2 })
	s.Signal(syscall.SIGSTOP)
	defer s.Signal(syscall.SIGCONT)
	servertest.Eventually(t, lease+7*time.Second, "the end of the command", func() bool { return commands() == 0 })
}

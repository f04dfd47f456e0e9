package main_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

// The pause is longer than a lease (30 s by default) and the time to detect a dead
// holder together.
const longPause = 45 * time.Second

func TestAPausedHolderCannotWriteOnceItWasReplaced(t *testing.T) {
	servertest.Faults(t)
	t.Parallel()
	for _, how := range []string{"rest", "library"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, same(clusterStore(t), 2))
			first := c.holder(t, how)
			first.says("written")
			first.pause(5 * time.Second) // less than its lease, so nobody replaces it
			first.says("written")

			resume := first.stop()
			begin := time.Now()
			var crashed runView
			servertest.Eventually(t, longPause, "the paused holder's run has crashed", func() bool {
				c.Members[1].Must("GET", first.path(), nil, &crashed)
				return crashed.Status == "crashed"
			})
			found := time.Since(begin)
			second := c.holderIn(t, how, first.thread)
			second.says("written")
			<-time.After(longPause - time.Since(begin))
			resume()
			first.says(map[string]string{"rest": "409 fenced", "library": "fenced"}[how])
			second.says("written")
			c.consistent(t, holderSpace)
			t.Logf("%s: found after %v, paused for %v", how, found.Round(time.Second), longPause)
		})
	}
}

// A late holder that nobody has replaced may write.
func TestAPausedHolderThatNobodyReplacedMayWrite(t *testing.T) {
	servertest.Faults(t)
	t.Parallel()
	c := startCluster(t, same(clusterStore(t), 1))
	h := c.holder(t, "library")
	h.says("written")
	c.Members[0].Terminate() // no server is left to sweep
	h.pause(longPause)
	h.says("written")
}

// holder is a worker in a process of its own that holds a run.
type holder struct {
	t           *testing.T
	cmd         *exec.Cmd
	in          io.WriteCloser
	out         *bufio.Reader
	thread, run string
}

// holder starts a run in a new thread and a worker that holds it.
func (c *cluster) holder(t *testing.T, how string) *holder {
	t.Helper()
	var thread struct{ ID string }
	c.Members[0].Must("POST", "/v1/spaces/"+holderSpace+"/threads", map[string]any{}, &thread)
	return c.holderIn(t, how, thread.ID)
}

func (c *cluster) holderIn(t *testing.T, how, thread string) *holder {
	t.Helper()
	var run runView
	c.Members[0].Must("POST", "/v1/spaces/"+holderSpace+"/threads/"+thread+"/runs", map[string]any{"prompt": "Work", "agent": "worker"}, &run)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{t: t, cmd: exec.Command(exe), thread: thread, run: run.ID}
	where := c.URLs[0] + " " + c.Token
	if how == "library" {
		where = c.Members[0].Store
	}
	h.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s", holderVariable, how, where))
	h.cmd.Stderr = os.Stderr
	in, err := h.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.in, h.out = in, bufio.NewReader(out)
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.in.Close()
		h.cmd.Process.Signal(syscall.SIGCONT)
		if err := h.cmd.Wait(); err != nil {
			t.Errorf("holder: %v", err)
		}
	})
	if got := h.line(); got != "holding "+h.run {
		t.Fatalf("a holder printed %q, want that it holds %s", got, h.run)
	}
	return h
}

func (h *holder) path() string {
	return "/v1/spaces/" + holderSpace + "/threads/" + h.thread + "/runs/" + h.run
}

func (h *holder) line() string {
	line, err := h.out.ReadString('\n')
	if err != nil {
		h.t.Errorf("read from a holder: %v", err)
	}
	return strings.TrimSpace(line)
}

// says makes the holder write and checks the result that it prints.
func (h *holder) says(want string) {
	h.t.Helper()
	fmt.Fprintln(h.in, "a line")
	if got := h.line(); got != want {
		h.t.Errorf("a holder that writes: got %q, want %q", got, want)
	}
}

// stop pauses the process until resume is called.
func (h *holder) stop() (resume func()) {
	h.cmd.Process.Signal(syscall.SIGSTOP)
	return func() { h.cmd.Process.Signal(syscall.SIGCONT) }
}

// pause pauses the process for a while.
func (h *holder) pause(d time.Duration) {
	resume := h.stop()
	<-time.After(d)
	resume()
}

package servertest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
)

// Tail is a `thole tail` process and what it printed so far.
type Tail struct {
	T      *testing.T
	cmd    *exec.Cmd
	done   chan struct{} // closed when its output has ended
	errOut bytes.Buffer

	mu     sync.Mutex
	events []Event
}

// StartTail runs thole tail on a space until the end of the test.
func StartTail(t *testing.T, space string, args ...string) *Tail {
	t.Helper()
	w := &Tail{T: t, done: make(chan struct{})}
	w.cmd = exec.Command(program, slices.Concat([]string{"tail", space, "--json"}, args)...)
	w.cmd.Stderr = &w.errOut
	out, err := w.cmd.StdoutPipe()
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.done)
		for s := bufio.NewScanner(out); s.Scan(); {
			w.take(s.Bytes())
		}
	}()
	t.Cleanup(w.Stop)
	return w
}

func (w *Tail) take(line []byte) {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		w.T.Errorf("tail printed %s: %v", line, err)
	}
	if e.Position != "" { // not a broadcast
		w.mu.Lock()
		defer w.mu.Unlock()
		e.Text = string(line)
		w.events = append(w.events, e)
	}
}

// Events returns the durable events that it has printed.
func (w *Tail) Events() []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// Stop interrupts the command and waits for its end; it must succeed.
func (w *Tail) Stop() {
	if w.cmd.ProcessState != nil {
		return
	}
	w.cmd.Process.Signal(os.Interrupt)
	<-w.done
	if err := w.cmd.Wait(); err != nil {
		w.T.Errorf("tail: %v: %s", err, w.errOut.String())
	}
}

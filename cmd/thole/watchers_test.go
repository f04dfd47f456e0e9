package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// watcher is a `thole tail` process and what it printed so far.
type watcher struct {
	t      *testing.T
	cmd    *exec.Cmd
	done   chan struct{} // closed when its output has ended
	errOut bytes.Buffer

	mu     sync.Mutex
	events []event
}

// startWatcher runs thole tail on a space. It is ended with the test.
func startWatcher(t *testing.T, space string, args ...string) *watcher {
	t.Helper()
	w := &watcher{t: t, done: make(chan struct{})}
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

func (w *watcher) take(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		w.t.Errorf("tail printed %s: %v", line, err)
	}
	if e.Position != "" { // no broadcast
		w.mu.Lock()
		defer w.mu.Unlock()
		e.text = string(line)
		w.events = append(w.events, e)
	}
}

// Events returns the durable events that it has printed.
func (w *watcher) Events() []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// Stop interrupts the watcher and waits for its end, which must be a good one.
func (w *watcher) Stop() {
	if w.cmd.ProcessState != nil {
		return
	}
	w.cmd.Process.Signal(os.Interrupt)
	<-w.done
	if err := w.cmd.Wait(); err != nil {
		w.t.Errorf("tail: %v: %s", err, w.errOut.String())
	}
}

// same checks that a watcher printed the same events as want, in their order.
func (w *watcher) same(name string, want []event) {
	w.t.Helper()
	got := w.Events()
	for i := range min(len(got), len(want)) {
		if got[i].Position != want[i].Position || got[i].Type != want[i].Type || !bytes.Equal(got[i].Data, want[i].Data) {
			w.t.Errorf("%s: event %d: got %s, want %s", name, i, got[i].text, want[i].text)
			return
		}
	}
	if len(got) != len(want) {
		w.t.Errorf("%s: got %d events, want %d", name, len(got), len(want))
	}
}

func TestThreeWatchersEndWithTheSameEventsInTheSameOrder(t *testing.T) {
	script, err := os.ReadFile("../../examples/script.yaml")
	if err != nil {
		t.Fatal(err)
	}
	slowly := strings.Replace(string(script), "delay_ms: 15\n", "delay_ms: 200\n", 1) // so that all begin before one ends
	s := startServer(t, setup{Script: slowly})
	const space = "project:parallel"
	first := startWatcher(t, space, "--server", s.URL, "--after=")
	second := startWatcher(t, space, "--store", s.Store, "--after=")
	s.Must("PUT", "/v1/spaces/"+space+"/kv/watch/begin", map[string]any{"data": 1}, nil)
	eventually(t, 10*time.Second, "both watchers watch", func() bool { return len(first.Events()) > 0 && len(second.Events()) > 0 })

	var wg sync.WaitGroup
	for _, page := range []string{"one", "two", "three"} {
		wg.Go(func() {
			if err := s.converse(t.Context(), space, "Write the page "+page); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	journal := s.Events(space)
	third := startWatcher(t, space, "--server", s.URL, "--after=")
	for name, w := range map[string]*watcher{"first": first, "second": second, "third": third} {
		eventually(t, 10*time.Second, "all events at the watcher", func() bool { return len(w.Events()) >= len(journal) })
		w.Stop()
		w.same(name, journal)
	}
	if !interleaved(journal) {
		t.Errorf("the runs were one after the other, not parallel")
	}
	for _, page := range []string{"one", "two", "three"} {
		if !exists(s.Project, "pages", page+".html") {
			t.Errorf("the run that writes page %s did not", page)
		}
	}
}

// interleaved reports whether three runs were at work at the same time.
func interleaved(journal []event) bool {
	active, most := 0, 0
	for _, e := range journal {
		switch e.Type {
		case "run.started":
			active++
		case "run.finished":
			active--
		}
		most = max(most, active)
	}
	return most == 3
}

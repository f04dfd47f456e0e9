package main_test

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

// mustHavePrinted checks that a watcher printed the same events as want, in the same
// order.
func mustHavePrinted(w *servertest.Tail, name string, want []servertest.Event) {
	w.T.Helper()
	got := w.Events()
	for i := range min(len(got), len(want)) {
		if got[i].Position != want[i].Position || got[i].Type != want[i].Type || !bytes.Equal(got[i].Data, want[i].Data) {
			w.T.Errorf("%s: event %d: got %s, want %s", name, i, got[i].Text, want[i].Text)
			return
		}
	}
	if len(got) != len(want) {
		w.T.Errorf("%s: got %d events, want %d", name, len(got), len(want))
	}
}

func TestThreeWatchersEndWithTheSameEventsInTheSameOrder(t *testing.T) {
	script, err := os.ReadFile("../../examples/script.yaml")
	if err != nil {
		t.Fatal(err)
	}
	slowly := strings.Replace(string(script), "delay_ms: 15\n", "delay_ms: 200\n", 1) // so that all begin before the first one ends
	s := servertest.Start(t, servertest.Setup{Script: slowly})
	const space = "project:parallel"
	first := servertest.StartTail(t, space, "--server", s.URL, "--after=")
	second := servertest.StartTail(t, space, "--store", s.Store, "--after=")
	s.Must("PUT", "/v1/spaces/"+space+"/kv/watch/begin", map[string]any{"data": 1}, nil)
	servertest.Eventually(t, 10*time.Second, "both watchers watch", func() bool { return len(first.Events()) > 0 && len(second.Events()) > 0 })

	var wg sync.WaitGroup
	for _, page := range []string{"one", "two", "three"} {
		wg.Go(func() {
			if err := s.Converse(t.Context(), space, "Write the page "+page); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	journal := s.Events(space)
	third := servertest.StartTail(t, space, "--server", s.URL, "--after=")
	for name, w := range map[string]*servertest.Tail{"first": first, "second": second, "third": third} {
		servertest.Eventually(t, 10*time.Second, "all events at the watcher", func() bool { return len(w.Events()) >= len(journal) })
		w.Stop()
		mustHavePrinted(w, name, journal)
	}
	if !interleaved(journal) {
		t.Errorf("the runs were one after the other, not parallel")
	}
	for _, page := range []string{"one", "two", "three"} {
		if !servertest.Exists(s.Project, "pages", page+".html") {
			t.Errorf("the run that writes page %s did not", page)
		}
	}
}

// interleaved reports whether three runs were active at the same time.
func interleaved(journal []servertest.Event) bool {
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

package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

// endpoint is a model service with faults, which the prompt chooses; attempts count
// from 1.
type endpoint struct {
	mu       sync.Mutex
	attempts map[string]int
	stop     chan struct{} // ends the requests that stall
}

const (
	chunkText = `data: {"choices":[{"index":0,"delta":{"content":%q}}]}` + "\n\n"
	chunkCall = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"Write","arguments":%q}}]}}]}` + "\n\n"
	chunkEnd  = `data: {"choices":[{"index":0,"delta":{},"finish_reason":%q}]}` + "\n\ndata: [DONE]\n\n"
	half      = `{"file_path":"half.txt","content":"only ha`
)

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	prompt := ""
	for p := range faults() {
		if p != "" && strings.Contains(string(body), p) {
			prompt = p
		}
	}
	e.mu.Lock()
	e.attempts[prompt]++
	n := e.attempts[prompt]
	e.mu.Unlock()
	refuse := func(status int, text string) {
		w.Header().Set("Retry-After-Ms", "20")
		w.WriteHeader(status)
		io.WriteString(w, text)
	}
	say := func(format string, args ...any) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, format, args...)
		w.(http.Flusher).Flush()
	}
	stall := func() {
		select {
		case <-e.stop:
		case <-r.Context().Done():
		}
	}
	faults()[prompt].act(n, refuse, say, stall)
}

// modelFault is what a service does, and how the run must end.
type modelFault struct {
	act      func(n int, refuse func(int, string), say func(string, ...any), stall func())
	status   string
	says     string // in the run's error and the thread
	attempts int    // at least
}

func answer(say func(string, ...any)) { say(chunkText+chunkEnd, "All is well.", "stop") }

// cut breaks off a response, as a service that crashes does.
func cut() { panic(http.ErrAbortHandler) }

func faults() map[string]modelFault {
	type refuse = func(int, string)
	type say = func(string, ...any)
	type stall = func()
	always := func(status int, text string) func(int, refuse, say, stall) {
		return func(_ int, r refuse, _ say, _ stall) { r(status, text) }
	}
	return map[string]modelFault{
		"":                      {func(_ int, _ refuse, s say, _ stall) { answer(s) }, "succeeded", "", 1},
		"PROMPT-limited-twice":  {func(n int, r refuse, s say, _ stall) { retry(n, 3, func() { r(429, "slow down") }, s) }, "succeeded", "", 3},
		"PROMPT-broken-once":    {func(n int, r refuse, s say, _ stall) { retry(n, 2, func() { r(500, "oops") }, s) }, "succeeded", "", 2},
		"PROMPT-stalls-once":    {func(n int, _ refuse, s say, w stall) { retry(n, 2, w, s) }, "succeeded", "", 2},
		"PROMPT-always-limited": {always(429, `{"error":{"type":"rate_limit_error","message":"too many"}}`), "failed", "429", 4},
		"PROMPT-always-broken":  {always(500, "<html>oops</html>"), "failed", "500", 4},
		"PROMPT-overloaded":     {always(529, `{"error":{"type":"overloaded_error","message":"busy"}}`), "failed", "overloaded_error", 4},
		"PROMPT-no-key":         {always(401, `{"error":{"message":"bad key"}}`), "failed", "check the API key", 1},
		"PROMPT-no-stream":      {func(_ int, _ refuse, s say, _ stall) { s("<html>Welcome</html>") }, "failed", "model's response", 1},
		"PROMPT-overload-inside": {func(_ int, _ refuse, s say, _ stall) {
			s(`data: {"error":{"type":"overloaded_error","message":"busy"}}` + "\n\n")
		}, "failed", "overloaded_error", 1},
		"PROMPT-stalls-inside":  {func(_ int, _ refuse, s say, w stall) { s(chunkText, "So far "); w() }, "failed", "stalled", 1},
		"PROMPT-cut-in-text":    {func(_ int, _ refuse, s say, _ stall) { s(chunkText, "So far "); cut() }, "failed", "incomplete", 1},
		"PROMPT-cut-in-call":    {func(_ int, _ refuse, s say, _ stall) { s(chunkCall, half); cut() }, "failed", "incomplete", 1},
		"PROMPT-end-in-call":    {func(_ int, _ refuse, s say, _ stall) { s(chunkCall, half) }, "failed", "incomplete", 1},
		"PROMPT-stalls-in-call": {func(_ int, _ refuse, s say, w stall) { s(chunkCall, half); w() }, "failed", "stalled", 1},
		"PROMPT-bad-call":       {func(_ int, _ refuse, s say, _ stall) { s(chunkCall+chunkEnd, half, "tool_calls") }, "failed", "model's response", 1},
	}
}

// retry calls fail until attempt number good, which calls say.
func retry(n, good int, fail func(), say func(string, ...any)) {
	if n < good {
		fail()
		return
	}
	answer(say)
}

// All kinds of faults happen at the same time: every run ends, says why, and has done
// nothing halfway; afterwards everything works again.
func TestAModelThatFailsEndsItsRunClearly(t *testing.T) {
	e := &endpoint{attempts: map[string]int{}, stop: make(chan struct{})}
	service := httptest.NewServer(e)
	t.Cleanup(func() { close(e.stop); service.Close() })
	s := servertest.Start(t, servertest.Setup{Args: []string{"--model", "openai:fake@" + service.URL + "/v1", "--stall", "3s"}})
	const space = "/v1/spaces/project:model"
	runs := map[string]string{}
	for prompt := range faults() {
		runs[prompt] = s.Ask(space, "Hello "+prompt)
	}
	for prompt, want := range faults() {
		r := s.Ended(runs[prompt], 60*time.Second)
		if r.Status != want.status || !strings.Contains(r.Error, want.says) {
			t.Errorf("%s: got %s, %q; want %s, %q", prompt, r.Status, r.Error, want.status, want.says)
		}
		e.mu.Lock()
		if n := e.attempts[prompt]; n < want.attempts {
			t.Errorf("%s: %d attempts, want %d", prompt, n, want.attempts)
		}
		e.mu.Unlock()
		showsError(s, runs[prompt], prompt, want)
	}
	if servertest.Exists(s.Project, "half.txt") {
		t.Error("half a tool call was carried out")
	}
	if r := s.Ended(s.Ask(space, "Hello"), 20*time.Second); r.Status != "succeeded" {
		t.Errorf("a run after all that: got %+v", r)
	}
	s.Terminate()
	servertest.MustBeHealthy(t, s.Store)
}

// showsError checks that a failed run's turn ends with a block that says why.
func showsError(s *servertest.Server, run, prompt string, want modelFault) {
	s.T.Helper()
	thread, _, _ := strings.Cut(run, "/runs/")
	var page struct {
		Items []struct {
			Status   string
			Response []struct{ Type, Content string }
		}
	}
	s.Must("GET", thread+"/turns", nil, &page)
	if len(page.Items) != 1 {
		s.T.Fatalf("%s: got %d turns, want 1", prompt, len(page.Items))
	}
	turn := page.Items[0]
	shown := ""
	for _, b := range turn.Response {
		if b.Type == "error" {
			shown = b.Content
		}
	}
	text, _ := json.Marshal(turn) // of strings: cannot fail
	switch {
	case want.status == "succeeded" && (turn.Status != "done" || shown != ""):
		s.T.Errorf("%s: got turn %s", prompt, text)
	case want.status == "failed" && (turn.Status != "error" || !strings.Contains(shown, want.says)):
		s.T.Errorf("%s: got turn %s; want one that ends with an error that says %q", prompt, text, want.says)
	}
}

// The cancel does not wait for the stall to end.
func TestARunWhoseModelStallsCanBeCancelled(t *testing.T) {
	stop, asked := make(chan struct{}), make(chan struct{}, 8)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(stop); service.Close() })
	s := servertest.Start(t, servertest.Setup{Args: []string{"--model", "openai:fake@" + service.URL + "/v1"}})
	run := s.Ask("/v1/spaces/project:model", "Hello")
	select {
	case <-asked:
	case <-time.After(20 * time.Second):
		t.Fatal("the model was never asked")
	}
	s.Must("POST", run+"/cancel", nil, nil)
	if r := s.Ended(run, 10*time.Second); r.Status != "cancelled" || r.Cancel.Cause != "user" {
		t.Errorf("run: got %+v, want cancelled by user", r)
	}
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

func TestMain(m *testing.M) { statetest.Main(m) }

// started is a running program, on a port of its own.
type started struct {
	addr string
	stop func()
}

// start runs the program on the file at path until the test ends or stop is called.
func start(t *testing.T, addr, path string) *started {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- chat(ctx, l, path) }()
	s := &started{addr: l.Addr().String()}
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the program ended with %v", err)
		}
	}
	t.Cleanup(s.stop)
	return s
}

func TestAQuestionIsAnsweredOnEveryStore(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		messages, err := talk(t.Context(), e.Store.Space("project:chat"), "hello")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range messages {
			got = append(got, m.Role+": "+text(m.Blocks))
		}
		want := []string{"user: hello", "assistant: You said: hello. Ask me to roll, to bet, or to count."}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A yes to one question, or a second click on it, says nothing about another.
func TestAnAnswerIsToOneQuestion(t *testing.T) {
	store, err := open(t.Context(), filepath.Join(t.TempDir(), "chat.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	space := store.Space("project:chat")
	ctx, stop := context.WithCancel(t.Context())
	var worker sync.WaitGroup
	worker.Go(func() { work(ctx, space) })
	defer worker.Wait()
	defer stop()

	talk, err := thread.In(space).Create(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	runs := run.In(space, nil)
	r, err := runs.Start(t.Context(), talk.ID, run.Request{Prompt: "bet on red"})
	if err != nil {
		t.Fatal(err)
	}
	becomes := func(status string) {
		t.Helper()
		servertest.Eventually(t, 10*time.Second, "the run is "+status, func() bool {
			r, err = runs.Get(t.Context(), r.ID)
			return err == nil && r.Status == status
		})
	}
	becomes(run.Waiting)
	for _, question := range []string{"approval", "approval-2", r.WaitingFor} {
		if becomes(run.Waiting); question == r.WaitingFor && len(r.Signals) != 2 {
			t.Errorf("kept for other questions: got %v, want two", r.Signals)
		}
		if err := runs.Signal(t.Context(), r.ID, question, json.RawMessage(`{"yes": true}`)); err != nil {
			t.Fatal(err)
		}
	}
	becomes(run.Succeeded)
}

func TestADeployStopsTheProgramInGoodOrder(t *testing.T) {
	ctx, stop := untilStopped()
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Error("SIGTERM does not stop the program")
	}
}

// A request whose body has begun to come is answered, and its commit is kept.
func TestTheProgramEndsWhenItsRequestsHaveTheirAnswers(t *testing.T) {
	p := start(t, "127.0.0.1:0", filepath.Join(t.TempDir(), "chat.db"))
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/spaces/project:chat/threads HTTP/1.1\r\nHost: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n", p.addr)
	answer := bufio.NewReader(c)
	if line, err := answer.ReadString('\n'); !strings.Contains(line, " 100 ") {
		t.Fatalf("got %q, %v; want to be asked for the body", line, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.stop()
	}()
	servertest.Eventually(t, 10*time.Second, "the program takes no more connections", func() bool {
		c, err := net.Dial("tcp", p.addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	select {
	case <-ended:
		t.Error("the program ended before it had answered")
	case <-time.After(100 * time.Millisecond): // it goes on waiting
	}
	fmt.Fprint(c, "{}")
	_, _ = answer.ReadString('\n') // the end of 100 Continue
	if line, err := answer.ReadString('\n'); !strings.Contains(line, " 201 ") {
		t.Errorf("got %q, %v; want 201", line, err)
	}
	<-ended
}

var fence = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// blocks returns the guide's code blocks in one language.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	guide, err := os.ReadFile("../../docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range fence.FindAllSubmatch(guide, -1) {
		if string(m[1]) == language {
			all = append(all, string(m[2]))
		}
	}
	if len(all) == 0 {
		t.Fatalf("the guide shows no %s", language)
	}
	return all
}

func TestTheGuideShowsThisProgram(t *testing.T) {
	for language, file := range map[string]string{"go": "main.go", "js": "index.html"} {
		program, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blocks(t, language) {
			if !bytes.Contains(program, []byte(block)) {
				t.Errorf("%s does not hold what the guide shows:\n%s", file, block)
			}
		}
	}
}

// The guide's first two commands get and start the program, which the test replaces.
func TestTheGuidesCommandsWorkAgainstTheProgram(t *testing.T) {
	p := start(t, "127.0.0.1:0", filepath.Join(t.TempDir(), "chat.db"))
	script := strings.Join(blocks(t, "sh")[2:], "\n")
	script = strings.ReplaceAll(script, "127.0.0.1:8080", p.addr)
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "event: tool.completed") || !strings.Contains(string(out), "event: complete\n") {
		t.Errorf("got %v and\n%s", err, out)
	}
}

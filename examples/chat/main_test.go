package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/state/statetest"
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

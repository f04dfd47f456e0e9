package examples_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent"
	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/examples"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
)

var supervisor *sandbox.Supervisor

func TestMain(m *testing.M) {
	supervisor = sandbox.Main()
	statetest.Main(m)
}

// What the three turns make of the project.
const button = `import { h } from '../dom.js'

export function Button({ label, onClick = () => {} }) {
  return h('button', {
    type: 'button',
    onClick,
    class: 'button',
    style: 'background: royalblue; color: white',
  }, label)
}
`

// TestTheSampleRunsOnEveryBackend plays turns.sh, as a user does, against a
// server with the reference agent on the sample project.
func TestTheSampleRunsOnEveryBackend(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil && os.Getenv("THOLE_TEST") != "all" {
		t.Skip("turns.sh needs curl")
	}
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		dir := t.TempDir()
		sp := e.Space("project:sample")
		url := serve(t, e.Store, sp, dir)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, "./turns.sh", url, sp.Name()).CombinedOutput()
		if err != nil {
			t.Fatalf("turns.sh: %v\n%s", err, out)
		}
		if n := strings.Count(string(out), "\n  complete\n"); n != 3 {
			t.Errorf("turns.sh saw %d turns complete, want 3:\n%s", n, out)
		}
		_, id, _ := strings.Cut(string(out), "thread ")
		id, _, _ = strings.Cut(id, " ")
		runs, err := run.In(sp, nil).List(ctx, id, nil)
		if err != nil || len(runs.Items) != 3 {
			t.Fatalf("runs: got %d, %v; want 3", len(runs.Items), err)
		}
		for _, r := range runs.Items {
			if r.Status != run.Succeeded {
				t.Errorf("%s ended %s: %s", r.ID, r.Status, r.Error)
			}
		}
		if got := read(t, dir, "src/components/Button.js"); got != button {
			t.Errorf("Button.js: got %s, want %s", got, button)
		}
		if got, want := read(t, dir, "src/App.js"), "Button({ label: 'Press me', onClick: () => alert('Pressed') })"; !strings.Contains(got, want) {
			t.Errorf("App.js: got %s, want %s in it", got, want)
		}
	})
}

// serve lays out the sample project in dir and serves store with an agent that
// works on it, without the script's delays. It returns the server's address.
func serve(t *testing.T, store *thole.Store, sp *thole.Space, dir string) string {
	t.Helper()
	if _, err := examples.LayOut(dir); err != nil {
		t.Fatal(err)
	}
	sb, err := sandbox.Open(dir, &sandbox.Options{Supervisor: supervisor})
	if err != nil {
		t.Fatal(err)
	}
	recorded := strings.Replace(read(t, ".", "script.yaml"), "delay_ms: 15\n", "", 1)
	script, err := model.ParseScript("script.yaml", []byte(recorded))
	if err != nil {
		t.Fatal(err)
	}
	coder, err := agent.New(agent.Options{Sandbox: sb, Models: map[string]model.Model{"sample": script}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = coder.Serve(ctx, sp, &agent.ServeOptions{Unnamed: true}) // ends with ctx
	}()
	server := httptest.NewServer(rest.New(store, &rest.Options{Logger: slog.New(slog.DiscardHandler)}))
	t.Cleanup(func() {
		server.Close()
		stop()
		<-ended
		if err := sb.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.URL
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

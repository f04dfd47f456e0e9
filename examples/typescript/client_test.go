// Package typescript contains a program in TypeScript, whose types are generated from
// the OpenAPI document, and its test.
package typescript

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/state/all"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

func TestMain(m *testing.M) { statetest.Main(m) }

// serve starts a server whose runs are answered by an agent with a tool and some text.
func serve(t *testing.T) (url string) {
	t.Helper()
	store, err := thole.Open(t.Context(), memstore.New(), &thole.Options{Concepts: all.Concepts()})
	if err != nil {
		t.Fatal(err)
	}
	api := rest.New(store, nil)
	server := httptest.NewServer(api)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h, err := run.In(store.Space("project:sample"), nil).Claim(ctx, &run.ClaimOptions{Name: "coder", Wait: 5 * time.Minute})
		if err != nil {
			return // the test ended first
		}
		if err := h.Do(ctx, answer); err != nil {
			t.Errorf("answer: %v", err)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		api.Drain()
		server.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.URL
}

func answer(ctx context.Context, h *run.Handle) error {
	call, err := h.StartTool(ctx, "Write", json.RawMessage(`{"file_path": "Button.js"}`), "")
	if err != nil {
		return err
	}
	if err := h.FinishTool(ctx, call, thread.ToolResult{Result: json.RawMessage(`"written"`)}); err != nil {
		return err
	}
	return h.Text(ctx, "The button is there.")
}

// command runs a program in dir and returns what it prints.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestAGeneratedClientNarrowsEventsWithoutACast(t *testing.T) {
	effort.AllOnly(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("chat.ts")
	if err != nil {
		t.Fatal(err)
	}
	for _, cast := range []string{" as ", "any", "!.", "@ts-"} {
		if strings.Contains(string(program), cast) {
			t.Errorf("chat.ts holds %q", cast)
		}
	}
	url := serve(t)
	command(t, dir, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	bin := filepath.Join(dir, "node_modules", ".bin")
	command(t, dir, filepath.Join(bin, "openapi-typescript"), url+"/openapi.json", "-o", "thole.d.ts")
	command(t, dir, filepath.Join(bin, "tsc"))
	got := command(t, dir, "node", "chat.js", url)
	want := "user: Create a button component\n" +
		"  Write {\"file_path\":\"Button.js\"}\n" +
		"The button is there.\n" +
		"succeeded\n"
	if got != want {
		t.Errorf("the program printed\n%s\nwant\n%s", got, want)
	}
}

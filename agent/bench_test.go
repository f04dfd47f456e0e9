package agent

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/state/all"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// BenchmarkCancel measures the time from the call of Cancel until the run has ended,
// and with it the last process of a command that forks twice.
func BenchmarkCancel(b *testing.B) {
	ctx := b.Context()
	backend, err := sqlitestore.Open(ctx, filepath.Join(b.TempDir(), "store.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	store, err := thole.Open(ctx, backend, &thole.Options{Concepts: all.Concepts()})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	dir := b.TempDir()
	sb, err := sandbox.Open(dir, &sandbox.Options{Supervisor: supervisor})
	if err != nil {
		b.Fatal(err)
	}
	defer sb.Close()
	script, err := model.OpenScript("../examples/scripts/slow.yaml")
	if err != nil {
		b.Fatal(err)
	}
	ids := make(chan string, 1)
	a, err := New(Options{Sandbox: sb, Models: map[string]model.Model{"m": script}, Hooks: Hooks{
		BeforeTool: func(_ context.Context, c *Context, _ *Call) error { ids <- c.Run; return nil },
	}})
	if err != nil {
		b.Fatal(err)
	}
	sp := store.Space("project:bench")
	var took []time.Duration
	for b.Loop() {
		th, err := thread.In(sp).Create(ctx, nil)
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := a.Run(ctx, sp, th.ID, Request{Prompt: "Start a stubborn server"})
			done <- err
		}()
		id := <-ids
		tick := time.NewTicker(time.Millisecond)
		for pids := 0; pids < 2; { // both have forked away
			<-tick.C
			data, _ := os.ReadFile(filepath.Join(dir, "pids.txt"))
			pids = len(slices.DeleteFunc(slices.Clone(data), func(c byte) bool { return c != '\n' }))
		}
		tick.Stop()
		begin := time.Now()
		if _, err := run.In(sp, nil).Cancel(ctx, id, run.ByUser); err != nil {
			b.Fatal(err)
		}
		<-done
		took = append(took, time.Since(begin))
		_ = os.Remove(filepath.Join(dir, "pids.txt"))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(0, "ns/op")
}

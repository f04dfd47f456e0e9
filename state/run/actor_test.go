package run_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// whoAndWhy returns the events of the thread as "type actor cause", without its
// creation.
func (b *bench) whoAndWhy(thread string) string {
	b.t.Helper()
	var out []string
	for e, err := range b.sp.Events(b.t.Context(), thole.ReadQuery{Stream: "thread/" + thread}) {
		if err != nil {
			b.t.Fatal(err)
		}
		if e.Type != "thread.created" {
			out = append(out, fmt.Sprintf("%s %s %s", e.Type, e.Actor, e.Cause))
		}
	}
	return strings.Join(out, "\n")
}

// asker returns the runs of user:42 within a request, and a thread that names no agent.
func (b *bench) asker() (*run.Runs, string) {
	b.t.Helper()
	sp := b.sp.As("user:42").Because("sess_1")
	th, err := thread.In(sp).Create(b.t.Context(), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return run.In(sp, nil), th.ID
}

// answer does the work of an agent.
func answer(ctx context.Context, h *run.Handle) error {
	block, err := h.StartTool(ctx, "Bash", nil, "")
	if err != nil {
		return err
	}
	if err := h.FinishTool(ctx, block, thread.ToolResult{}); err != nil {
		return err
	}
	return h.Text(ctx, "done")
}

func TestTheJournalNamesWhoAskedAndTheAgentThatDid(t *testing.T) {
	each(t, func(b *bench) {
		rs, id := b.asker()
		r, err := rs.Start(t.Context(), id, run.Request{Prompt: "go"})
		if err != nil {
			t.Fatal(err)
		}
		h, err := b.rs.Claim(t.Context(), &run.ClaimOptions{Name: "coder"})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Do(t.Context(), answer); err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(`run.queued user:42 sess_1
message.added user:42 RUN
run.started user:42 RUN
tool.started agent:coder RUN
tool.completed agent:coder RUN
message.delta agent:coder RUN
message.completed agent:coder RUN
run.finished agent:coder RUN`, "RUN", r.ID)
		if got := b.whoAndWhy(id); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		if r = b.status(r.ID, run.Succeeded); r.Agent != "coder" || r.AskedBy != "user:42" {
			t.Errorf("the run: got agent %q, asked by %q", r.Agent, r.AskedBy)
		}
	})
}

func TestARunThatWaitedStartsInTheNameOfWhoAsked(t *testing.T) {
	each(t, func(b *bench) {
		rs, id := b.asker()
		release, done := make(chan struct{}), make(chan error, 2)
		started := make(chan struct{})
		req := run.Request{Prompt: "go", Agent: "coder"}
		go func() {
			done <- rs.Do(t.Context(), id, req, func(ctx context.Context, h *run.Handle) error {
				close(started)
				<-release
				return nil
			})
		}()
		<-started
		w, err := b.sp.Watch(t.Context(), &thole.WatchOptions{Types: []string{"run.queued"}})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		go func() { done <- rs.Do(t.Context(), id, req, answer) }()
		if _, err := w.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		close(release)
		for range 2 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		got := b.whoAndWhy(id)
		if n := strings.Count(got, "message.added user:42 run_"); n != 1 || strings.Count(got, "message.added user:42 sess_1") != 1 {
			t.Errorf("got\n%s\nwant one message because of the request, one of the run", got)
		}
		if strings.Contains(got, "system") {
			t.Errorf("got\n%s\nwant nothing by system", got)
		}
	})
}

package statetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
	"github.com/thole-dev/thole/state/todo"
)

// write writes records of every concept; except for times and ids they are the same
// each time.
func write(t *testing.T, sp *thole.Space) {
	t.Helper()
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	threads := thread.In(sp)
	th, err := threads.Create(ctx, &thread.CreateOptions{Assistant: "coder", Title: "grüß dich", Visibility: "private", Owner: "user:42",
		Metadata: map[string]json.RawMessage{"a": json.RawMessage(`[1]`)}, TTL: time.Hour})
	must(th, err)
	writeRuns(t, sp, th.ID)
	_, err = threads.Append(ctx, th.ID, thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock("later")}}, nil)
	must(nil, err)

	docs := document.In(sp)
	must(docs.Put(ctx, "settings", map[string]any{"theme": "dark", "n": 1}, nil))
	must(docs.MergePatch(ctx, "settings", json.RawMessage(`{"theme":null}`), nil))
	must(docs.Apply(ctx, "settings", []document.Op{{Op: "increment", Path: "/n", By: "2"}}, nil))
	must(docs.Put(ctx, "gone", 1, nil))
	must(docs.Delete(ctx, "gone", nil))
	values := kv.In(sp)
	must(values.Set(ctx, "a/b", "key", []int{1, 2}, nil))
	must(values.Set(ctx, "a/b", "short", true, &kv.SetOptions{TTL: time.Hour}))
	must(lock.In(sp).Acquire(ctx, "src/app.ts", &lock.Options{Owner: "agent:coder", TTL: time.Hour}))
	must(lock.In(sp).Acquire(ctx, "src", &lock.Options{Owner: "agent:reader", TTL: time.Hour, Mode: lock.Intent}))
	must(todo.In(sp).Add(ctx, th.ID, todo.Todo{ID: "t1", Content: "write", Status: todo.InProgress, Priority: todo.High}, todo.Todo{ID: "t2", Content: "rest"}))

	decisions := decision.In(sp)
	d, err := decisions.Plan(ctx, decision.Plan{Action: "write app.ts", Decision: "in place", Rationale: "small", Input: json.RawMessage(`{"path":"app.ts"}`), Refs: []string{th.ID}, Idempotent: true, Thread: th.ID})
	must(d, err)
	must(decisions.Resolve(ctx, d.ID, decision.Done, map[string]int{"bytes": 5}))
	must(decisions.Plan(ctx, decision.Plan{Action: "publish"}))
	must(decisions.Order(ctx, decision.Plan{Action: "style", Decision: "tabs"}))

	files := file.In(sp)
	must(files.Changed(ctx, "src/app.ts", file.Hash([]byte("old")), file.Hash([]byte("new")), &file.Contents{Before: []byte("old"), After: []byte("new")}))
	must(nil, files.Conflict(ctx, file.Conflict{Path: "src/app.ts", Base: file.Hash([]byte("new")), Ours: file.Hash([]byte("ours")), Theirs: file.Hash([]byte("theirs")), Rejected: json.RawMessage(`["x"]`), Actor: "agent:coder"}))
}

// writeRuns leaves a run that succeeded, with a tool in its turn, one that failed, and
// a cancelled one.
func writeRuns(t *testing.T, sp *thole.Space, threadID string) {
	t.Helper()
	ctx, runs := t.Context(), run.In(sp, nil)
	err := runs.Do(ctx, threadID, run.Request{Prompt: "go", Agent: "coder", Model: "small", Timeout: time.Hour, Options: json.RawMessage(`{"x":1}`)}, func(ctx context.Context, h *run.Handle) error {
		if err := h.Text(ctx, "I will."); err != nil {
			return err
		}
		block, err := h.StartTool(ctx, "Read", json.RawMessage(`{"path":"a"}`), "op_1")
		if err == nil {
			err = h.FinishTool(ctx, block, thread.ToolResult{Result: json.RawMessage(`"ok"`)})
		}
		if err == nil {
			err = h.AddUsage(ctx, "small", run.Usage{InputTokens: 3, OutputTokens: 4, TotalTokens: 7})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("the model is away")
	if err := runs.Do(ctx, threadID, run.Request{Prompt: "again"}, func(context.Context, *run.Handle) error { return failed }); !errors.Is(err, failed) {
		t.Fatalf("do: got %v, want %v", err, failed)
	}
	r, err := runs.Start(ctx, threadID, run.Request{Prompt: "never"})
	if err == nil {
		_, err = runs.Cancel(ctx, r.ID, "user")
	}
	if err != nil {
		t.Fatal(err)
	}
}

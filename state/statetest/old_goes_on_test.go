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
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
	"github.com/thole-dev/thole/state/todo"
)

// goingOn is an old store that today's program uses.
type goingOn struct {
	*testing.T
	*oldStore
	s  *thole.Store
	sp *thole.Space
}

func TestStoresOfOldVersionsGoOn(t *testing.T) {
	eachOldStore(t, func(t *testing.T, o *oldStore) {
		s := o.store(t)
		g := &goingOn{T: t, oldStore: o, s: s, sp: s.Space("project:golden").As("user:ann")}
		g.repeats()
		g.waits()
		g.works()
		g.queue()
		g.locks()
		g.values()
		g.signals()
		g.ends()
	})
}

func (g *goingOn) check(what string, err error) {
	g.Helper()
	if err != nil {
		g.Fatalf("%s: %v", what, err)
	}
}

func (g *goingOn) same(what string, got, want any) {
	g.Helper()
	if got != want {
		g.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// repeats calls under their idempotency keys what the old program called.
func (g *goingOn) repeats() {
	once := func(key string) context.Context {
		return thole.WithIdempotencyKey(g.Context(), key, "fp-"+key)
	}
	head, err := g.sp.Head(g.Context())
	g.check("head", err)
	th, err := thread.In(g.sp).Create(once("create"), &thread.CreateOptions{Title: "once", Assistant: "oncer"})
	g.check("create again", err)
	g.same("the thread", th.ID, g.notes["once"])
	m, err := thread.In(g.sp).Append(once("append"), th.ID, thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock("once")}}, nil)
	g.check("append again", err)
	g.same("the message", m.ID, g.notes["once_message"])
	r, err := run.In(g.sp, nil).Start(once("start"), th.ID, run.Request{Prompt: "once"})
	g.check("start again", err)
	g.same("the run", r.ID, g.notes["once_run"])
	d, err := decision.In(g.sp).Plan(once("plan"), decision.Plan{Action: "once"})
	g.check("plan again", err)
	g.same("the decision", d.ID, g.notes["once_decision"])
	added, err := todo.In(g.sp).Add(once("todo"), th.ID, todo.Todo{Content: "once"})
	g.check("add again", err)
	g.same("the todo", added[0].ID, g.notes["once_todo"])
	_, err = kv.In(g.sp).Set(once("kv"), "once", "key", 1, nil)
	g.check("set again", err)
	_, err = document.In(g.sp).Put(once("document"), "once", 1, nil)
	g.check("put again", err)
	now, err := g.sp.Head(g.Context())
	g.check("head", err)
	g.same("the end of the journal", now.Last, head.Last)
	h, err := run.In(g.sp.As("user:worker"), nil).Claim(once("claim"), &run.ClaimOptions{Agent: "oncer"})
	g.check("claim again", err)
	g.same("the claimed run", h.ID(), g.notes["once_claimed"])
	g.finish(h, run.Succeeded)
}

// attach returns a worker's handle from the fence that the old program gave it.
func (g *goingOn) attach(name string) *run.Handle {
	g.Helper()
	f, err := thole.ParseFence(g.notes[name+"_fence"])
	g.check("fence of "+name, err)
	id := g.notes[name+"_run"]
	if id == "" {
		id = g.notes[name]
	}
	h, err := run.In(g.sp.As("user:worker"), nil).Attach(g.Context(), id, f)
	g.check("attach to "+name, err)
	g.check("heartbeat of "+name, h.Heartbeat(g.Context()))
	return h
}

func (g *goingOn) claim(agent, want string) *run.Handle {
	g.Helper()
	h, err := run.In(g.sp.As("user:worker"), nil).Claim(g.Context(), &run.ClaimOptions{Agent: agent, Name: "generalist"})
	g.check("claim for "+agent, err)
	g.same("the run of "+agent, h.ID(), g.notes[want])
	return h
}

func (g *goingOn) finish(h *run.Handle, want string) *run.Run {
	g.Helper()
	r, err := h.Finish(g.Context(), run.Succeeded, "")
	g.check("finish "+h.ID(), err)
	g.same("the status of "+h.ID(), r.Status, want)
	return r
}

// waits answers the run that waits for a signal; another signal came before.
func (g *goingOn) waits() {
	h := g.attach("waiting")
	g.check("signal", run.In(g.sp, nil).Signal(g.Context(), h.ID(), "approve", json.RawMessage(`{"ok":true}`)))
	for name, want := range map[string]string{"approve": `{"ok":true}`, "later/ü": `{"n":1}`} {
		data, err := h.Wait(g.Context(), name)
		g.check("wait for "+name, err)
		g.same("signal "+name, string(data), want)
	}
	g.check("say something", h.Text(g.Context(), "Thank you."))
	g.finish(h, run.Succeeded)
}

// works continues the run that streams, calls a tool and has a child.
func (g *goingOn) works() {
	ctx, h := g.Context(), g.attach("busy")
	child := g.attach("child")
	g.check("say something in the child", child.Text(ctx, "sub-agent's work"))
	g.finish(child, run.Succeeded)
	g.check("finish the tool", h.FinishTool(ctx, g.notes["busy_tool"], thread.ToolResult{Result: json.RawMessage(`"slept"`)}))
	g.check("go on with the text", h.Append(ctx, thread.Delta{Block: g.notes["busy_block"], Offset: len("on and "), Text: "on"}))
	g.finish(h, run.Succeeded)
	page, err := thread.In(g.sp).Turns(ctx, g.notes["busy"], &thread.Query{Last: 1})
	g.check("turns", err)
	response := page.Items[0].Response
	g.same("the tool's result", string(response[0].Tool.Result), `"slept"`)
	g.same("the text", response[1].Content, "on and on")
	_, err = decision.In(g.sp).Resolve(ctx, g.notes["planned"], decision.Done, nil)
	g.check("resolve what the run had planned", err)
	_, err = decision.In(g.sp).Resolve(ctx, g.notes["unknown"], decision.Failed, "no")
	g.check("resolve an unknown one", err)
}

// queue claims the queued runs in their order, and the ready ones.
func (g *goingOn) queue() {
	for _, name := range []string{"queued_0", "queued_1", "queued_2"} {
		h := g.claim("coder", name)
		if want := map[string]string{"queued_0": "next", "queued_1": "was edited", "queued_2": "last"}[name]; h.Request()[0].Content != want {
			g.Errorf("%s: got %q, want %q", name, h.Request()[0].Content, want)
		}
		g.finish(h, run.Succeeded)
	}
	h := g.claim("painter", "ready_run")
	r, err := h.Get(g.Context())
	g.check("get", err)
	g.same("the options", string(r.Options), `{"a":[1,2]}`)
	g.finish(h, run.Succeeded)
	g.finish(g.claim("", "anyone_run"), run.Succeeded)
	g.finish(g.claim("rester", "rest_run"), run.Succeeded)
	if _, err := run.In(g.sp, nil).Claim(g.Context(), &run.ClaimOptions{Agent: "liner"}); !errors.Is(err, thole.ErrNotFound) {
		g.Errorf("claim of a run in a line that is not its turn: got %v, want ErrNotFound", err)
	}
	f, err := thole.ParseFence(g.notes["line_fence"])
	g.check("fence", err)
	h, err = run.In(g.sp.As("user:worker"), nil).Attach(g.Context(), g.notes["line_active"], f)
	g.check("attach", err)
	g.finish(h, run.Succeeded)
	g.finish(g.claim("liner", "line_run"), run.Succeeded)
	g.finish(g.attach("asked"), run.Cancelled)
}

// locks renews and releases a lock for which two dead owners waited.
func (g *goingOn) locks() {
	ctx, locks := g.Context(), lock.In(g.sp.As("agent:coder"))
	f, err := thole.ParseFence(g.notes["lock_fence"])
	g.check("fence", err)
	g.check("renew", locks.Renew(ctx, "src/app.ts", f, time.Hour))
	if _, err := lock.In(g.sp).Acquire(ctx, "src/app.ts", &lock.Options{Owner: "agent:new"}); !errors.Is(err, thole.ErrConflict) {
		g.Errorf("acquire a lock that is held: got %v, want ErrConflict", err)
	}
	g.check("release", locks.Release(ctx, "src/app.ts", f))
	g.clock.Advance(time.Minute)
	g.check("sweep", g.s.Sweep(ctx))
	info, err := locks.Get(ctx, "src/app.ts")
	g.check("get", err)
	g.same("waiters", len(info.Waiters), 0)
	_, err = lock.In(g.sp).Acquire(ctx, "src/app.ts", &lock.Options{Owner: "agent:new"})
	g.check("acquire", err)
	_, err = lock.In(g.sp).Acquire(ctx, "soon dead", &lock.Options{Owner: "agent:new"})
	g.check("acquire a dead one's", err)
}

// values changes documents, values, todos and threads.
func (g *goingOn) values() {
	ctx := g.Context()
	doc, err := document.In(g.sp).Apply(ctx, "counter", []document.Op{{Op: "increment", Path: "/n", By: "10"}}, nil)
	g.check("increment", err)
	var counter struct{ N int }
	g.check("read the counter", doc.As(&counter))
	g.same("the counter", counter.N, 159)
	id := g.notes["history"]
	state := document.Under(g.sp, thread.Key(id), thread.Key(id))
	_, err = state.MergePatch(ctx, "state", json.RawMessage(`{"step":3}`), nil)
	g.check("change the state", err)
	e, err := kv.In(g.sp).Set(ctx, "a/b", "key", 4, nil)
	g.check("set", err)
	g.same("the value", string(e.Data), "4")
	done := todo.Completed
	_, err = todo.In(g.sp).Update(ctx, id, "t4", todo.Patch{Status: &done})
	g.check("update a todo", err)
	_, err = thread.In(g.sp).Append(ctx, id, thread.Message{Role: thread.Assistant, Blocks: []thread.Block{thread.TextBlock("again")}}, nil)
	g.check("append", err)
	title := "renamed"
	th, err := thread.In(g.sp).Patch(ctx, id, thread.Patch{Title: &title}, nil)
	g.check("patch", err)
	g.same("ttl", th.TTL, int64(864000))
}

// signals takes what the run before a resumed one did not take.
func (g *goingOn) signals() {
	if g.notes["signalled_run"] == "" {
		return
	}
	g.check("another signal", run.In(g.sp, nil).Signal(g.Context(), g.notes["signalled_run"], "news", json.RawMessage(`4`)))
	h := g.attach("signalled")
	for _, want := range []string{"3", "4"} {
		data, err := h.Wait(g.Context(), "news")
		g.check("wait", err)
		g.same("the signal", string(data), want)
	}
	g.finish(h, run.Succeeded)
}

// ends sweeps what a crash left, at once and after a long time, and checks what is
// left.
func (g *goingOn) ends() {
	ctx := g.Context()
	g.same("bills that were delivered", g.events("user:42", "bill.made"), 3)
	g.same("orders that were", g.events("project:golden", "order.delivered"), 3)
	runs := run.In(g.sp, nil)
	if g.notes["tree_run"] != "" {
		g.finish(g.attach("tree"), run.Cancelled)
		children, err := runs.Children(ctx, g.notes["tree_run"])
		g.check("children", err)
		for _, r := range children {
			g.same("a leaf", r.Status, run.Cancelled)
		}
	}
	for _, name := range []string{"gone_run", "gone_queued", "unburied_run"} {
		if id := g.notes[name]; id != "" {
			r, err := runs.Get(ctx, id)
			g.check(name, err)
			g.same(name, r.Status, run.Cancelled)
		}
	}
	g.clock.Advance(300 * time.Hour)
	for range 3 {
		g.check("sweep", g.s.Sweep(ctx))
		g.clock.Advance(time.Minute)
	}
	g.same("what expired of kv", g.events("project:golden", "kv.expired"), 3)
	for _, name := range []string{"history", "busy"} {
		if _, err := thread.In(g.sp).Get(ctx, g.notes[name]); !errors.Is(err, thole.ErrNotFound) {
			g.Errorf("thread %s: got %v, want it expired", name, err)
		}
	}
	var left []string
	for rec, err := range g.sp.Records(ctx, "") {
		g.check("records", err)
		for _, id := range []string{g.notes["history"], g.notes["busy"], g.notes["destroyed"], g.notes["unburied"]} {
			if id != "" && len(rec.Key) > len("thread/")+len(id) && rec.Key[len("thread/"):len("thread/")+len(id)] == id {
				left = append(left, rec.Key)
			}
		}
	}
	if len(left) > 0 {
		g.Errorf("records of destroyed threads are left: %v", left)
	}
	if _, err := thread.In(g.sp).Create(ctx, nil); err != nil {
		g.Errorf("create after all that: %v", err)
	}
}

// events counts the events of a type.
func (g *goingOn) events(space, typ string) int {
	g.Helper()
	n := 0
	for _, err := range g.s.Space(space).Events(g.Context(), thole.ReadQuery{Types: []string{typ}}) {
		g.check("events", err)
		n++
	}
	return n
}

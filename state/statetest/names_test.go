package statetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
	"github.com/thole-dev/thole/state/todo"
)

// life is a kind of names from outside: how such a name is accepted, and everything
// that is later done with what it names.
type life struct {
	kind  string
	units []string // what names are made of; nil: the characters that become longest when escaped
	enter func(ctx context.Context, sp *thole.Space, name string) error
	live  func(t *testing.T, e *statetest.Env, sp *thole.Space, name string)
}

// hostile are characters that become longer when escaped: a slash and a percent sign
// take three bytes each, a Chinese character nine.
var hostile = []string{"a", "%", "世", "/"}

func lives() []life {
	return []life{
		{"agent of a run", nil, enterRun, liveAgent},
		{"agent of a thread", nil, func(ctx context.Context, sp *thole.Space, name string) error {
			_, err := thread.In(sp).Create(ctx, &thread.CreateOptions{Assistant: name})
			return err
		}, liveAgent},
		{"worker", nil, func(ctx context.Context, sp *thole.Space, name string) error {
			_, err := run.In(sp, nil).Claim(ctx, &run.ClaimOptions{Name: name})
			return admitted(err)
		}, liveWorker},
		{"holder", nil, func(ctx context.Context, sp *thole.Space, name string) error {
			_, err := run.In(sp, nil).Claim(ctx, &run.ClaimOptions{Holder: name})
			return admitted(err)
		}, liveWorker},
		{"actor", nil, func(_ context.Context, _ *thole.Space, name string) error { return thole.ActorName.Check(name) }, liveActor},
		{"owner of a thread", nil, func(ctx context.Context, sp *thole.Space, name string) error {
			_, err := thread.In(sp).Create(ctx, &thread.CreateOptions{Owner: name, RunScope: thread.PerUser})
			return err
		}, liveOwner},
		{"model", nil, enterModel, liveModel},
		{"signal", nil, enterSignal, liveSignal},
		{"lock", nil, enterLock(lock.Exclusive, func(n string) (string, string) { return n, "o" }), liveLock},
		{"owner of a lock", nil, enterLock(lock.Exclusive, func(n string) (string, string) { return "l", n }), liveLockOwner},
		{"intent", nil, enterLock(lock.Intent, func(n string) (string, string) { return n, "o" }), liveIntent},
		{"owner of an intent", nil, enterLock(lock.Intent, func(n string) (string, string) { return "l", n }), liveIntentOwner},
		{"namespace", nil, enterValue(func(n string) (string, string) { return n, "k" }), liveValue(func(n string) (string, string) { return n, "k" })},
		{"key", nil, enterValue(func(n string) (string, string) { return "n", n }), liveValue(func(n string) (string, string) { return "n", n })},
		{"document", nil, func(ctx context.Context, sp *thole.Space, name string) error {
			_, err := document.In(sp).Put(ctx, name, 1, nil)
			return err
		}, liveDocument},
		{"path", []string{"a", "世", "%", "b/c"}, func(ctx context.Context, sp *thole.Space, name string) error {
			_, err := file.In(sp).Changed(ctx, name, "", file.Hash(nil), nil)
			return err
		}, liveFile},
		{"todo", []string{"a", "世", "%"}, enterTodo, liveTodo},
	}
}

// admitted returns nil for an error of a claim that came after the check of its names.
func admitted(err error) error {
	if errors.Is(err, thole.ErrNotFound) {
		return nil
	}
	return err
}

// longest returns the longest name of repeated units that is accepted.
func longest(t *testing.T, enter func(name string) error, unit string) string {
	t.Helper()
	if err := enter(strings.Repeat(unit, 600)); !errors.Is(err, thole.ErrTooLarge) && !errors.Is(err, thole.ErrInvalid) {
		t.Fatalf("a name of %d bytes: got %v, want that it is refused", 600*len(unit), err)
	}
	low, high := 1, 600 // low is accepted, high is not
	if err := enter(strings.Repeat(unit, low)); err != nil {
		if unit == "/" || unit == "%" { // not a name by itself
			return ""
		}
		t.Fatalf("the name %q: %v", unit, err)
	}
	for high-low > 1 {
		if n := (low + high) / 2; enter(strings.Repeat(unit, n)) == nil {
			low = n
		} else {
			high = n
		}
	}
	return strings.Repeat(unit, low)
}

func TestWhatIsNamedByTheLongestAdmittedNameLivesToItsEnd(t *testing.T) {
	effort.SlowUnderRace(t)
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		for _, l := range lives() {
			t.Run(l.kind, func(t *testing.T) {
				ctx := t.Context()
				for _, bad := range []string{"a\nb", "a\x00", "\x7f", "a\u0085", "\xff"} {
					if err := l.enter(ctx, e.Space("project:bad"), bad); !errors.Is(err, thole.ErrInvalid) {
						t.Errorf("the name %q: got %v, want ErrInvalid", bad, err)
					}
				}
				units := l.units
				if units == nil {
					units = hostile
				}
				for i, unit := range units {
					try := e.Space("project:try" + string(rune('a'+i)) + thole.NewID("x"))
					name := longest(t, func(name string) error { return l.enter(ctx, try, name) }, unit)
					if name == "" {
						continue
					}
					l.live(t, e, e.Space("project:"+thole.NewID("x")), name)
				}
			})
		}
	})
}

// must fails the test if one of errs is not nil.
func must(t *testing.T, what string, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// later moves the clock and ends what has expired.
func later(t *testing.T, e *statetest.Env, d time.Duration) {
	t.Helper()
	e.Clock.Advance(d)
	must(t, "sweep", e.Sweep(t.Context()))
}

// nothingLeft fails the test if the space has a record that should be gone.
func nothingLeft(t *testing.T, sp *thole.Space, prefixes ...string) {
	t.Helper()
	for _, prefix := range prefixes {
		for rec, err := range sp.Records(t.Context(), prefix) {
			if err != nil || rec.Exists() {
				t.Errorf("left over: %s, %v", rec.Key, err)
			}
		}
	}
}

func newThread(t *testing.T, sp *thole.Space, o thread.CreateOptions) string {
	t.Helper()
	th, err := thread.In(sp).Create(t.Context(), &o)
	must(t, "create a thread", err)
	return th.ID
}

func enterRun(ctx context.Context, sp *thole.Space, name string) error {
	th, err := thread.In(sp).Create(ctx, nil)
	if err != nil {
		return err
	}
	_, err = run.In(sp, nil).Start(ctx, th.ID, run.Request{Prompt: "go", Agent: name})
	return err
}

// liveAgent brings runs of the agent to every end that a run can have.
func liveAgent(t *testing.T, e *statetest.Env, sp *thole.Space, name string) {
	id := newThread(t, sp, thread.CreateOptions{Assistant: name})
	liveRuns(t, e, sp, id, run.Request{Prompt: "go"}, run.ClaimOptions{Agent: name})
	// An agent takes locks under its own name.
	liveActor(t, e, sp, "agent:"+name)
}

func liveWorker(t *testing.T, e *statetest.Env, sp *thole.Space, name string) {
	id := newThread(t, sp, thread.CreateOptions{})
	liveRuns(t, e, sp, id, run.Request{Prompt: "go"}, run.ClaimOptions{Holder: name})
	if thole.AgentName.Check(name) == nil {
		liveRuns(t, e, sp, newThread(t, sp, thread.CreateOptions{}), run.Request{Prompt: "go"}, run.ClaimOptions{Name: name})
	}
}

func liveRuns(t *testing.T, e *statetest.Env, sp *thole.Space, id string, req run.Request, claim run.ClaimOptions) {
	t.Helper()
	ctx := t.Context()
	rs := run.In(sp, nil)
	start := func() string {
		t.Helper()
		r, err := rs.Start(ctx, id, req)
		must(t, "start a run", err)
		return r.ID
	}
	claimed := func() *run.Handle {
		t.Helper()
		h, err := rs.Claim(ctx, &claim)
		must(t, "claim a run", err)
		return h
	}
	start()
	second, third, fourth := start(), start(), start()
	h := claimed()
	must(t, "text", h.Text(ctx, "hello"))
	_, err := rs.Cancel(ctx, second, run.ByUser)
	must(t, "cancel a queued run", err)
	_, err = h.Finish(ctx, run.Succeeded, "")
	must(t, "finish", err)
	claimed() // the worker dies
	later(t, e, time.Minute)
	for id, want := range map[string]string{second: run.Cancelled, third: run.Crashed, fourth: run.Queued} {
		if r, err := rs.Get(ctx, id); err != nil || r.Status != want {
			t.Fatalf("a run: got %+v, %v; want %s", r, err, want)
		}
	}
	_, err = rs.Cancel(ctx, fourth, run.ByUser)
	must(t, "cancel a run that is ready", err)
	req.Timeout = 5 * time.Second
	start()
	claimed()
	later(t, e, 6*time.Second)
	later(t, e, time.Minute)
	page, err := rs.List(ctx, id, nil)
	must(t, "list runs", err)
	for _, r := range page.Items {
		if !r.Ended() {
			t.Errorf("a run did not end: %+v", r)
		}
	}
	queue, err := rs.Queue(ctx, id)
	if err != nil || len(queue) > 0 {
		t.Errorf("queue: got %v, %v", queue, err)
	}
	req.Timeout = 0
	start()
	start()
	must(t, "destroy the thread", thread.In(sp).Destroy(ctx, id, nil))
	if _, err := rs.Claim(ctx, &claim); !errors.Is(err, thole.ErrNotFound) {
		t.Errorf("claim in a thread that is gone: %v", err)
	}
	later(t, e, time.Hour)
	nothingLeft(t, sp, "ready/", "slot/", "thread/")
}

// liveActor has the actor own runs and locks.
func liveActor(t *testing.T, e *statetest.Env, sp *thole.Space, name string) {
	t.Helper()
	ctx := t.Context()
	as := sp.As(name)
	if thole.ActorName.Check(name) == nil { // an agent's name may be longer; it owns no threads
		liveOwner(t, e, as, name)
	}
	ls := lock.In(as)
	for _, mode := range []lock.Mode{lock.Exclusive, lock.Intent} {
		l, err := ls.Acquire(ctx, "l", &lock.Options{Mode: mode})
		if mode == lock.Intent && errors.Is(err, thole.ErrTooLarge) {
			continue // its key contains the lock's name too, and both come from outside here
		}
		must(t, "acquire", err)
		if mode == lock.Exclusive {
			_, err = ls.Acquire(ctx, "l", &lock.Options{Wait: time.Millisecond})
			if !errors.Is(err, thole.ErrConflict) {
				t.Errorf("wait for a lock: %v", err)
			}
		}
		must(t, "release", l.Release(ctx))
	}
	_, err := decision.In(as).Plan(ctx, decision.Plan{Action: "x"})
	must(t, "decide", err)
}

func liveOwner(t *testing.T, e *statetest.Env, sp *thole.Space, name string) {
	t.Helper()
	id := newThread(t, sp, thread.CreateOptions{Owner: name, RunScope: thread.PerUser})
	liveRuns(t, e, sp, id, run.Request{Prompt: "go"}, run.ClaimOptions{})
}

func enterModel(ctx context.Context, sp *thole.Space, name string) error {
	th, err := thread.In(sp).Create(ctx, nil)
	if err != nil {
		return err
	}
	_, err = run.In(sp, nil).Start(ctx, th.ID, run.Request{Prompt: "go", Model: name})
	return err
}

func liveModel(t *testing.T, e *statetest.Env, sp *thole.Space, name string) {
	ctx := t.Context()
	id := newThread(t, sp, thread.CreateOptions{})
	liveRuns(t, e, sp, id, run.Request{Prompt: "go", Model: name}, run.ClaimOptions{})
	id = newThread(t, sp, thread.CreateOptions{})
	_, err := run.In(sp, nil).Start(ctx, id, run.Request{Prompt: "go"})
	must(t, "start", err)
	h, err := run.In(sp, nil).Claim(ctx, nil)
	must(t, "claim", err, h.SetModel(ctx, name), h.AddUsage(ctx, name, run.Usage{InputTokens: 1}))
	_, err = h.Finish(ctx, run.Failed, "it broke")
	must(t, "finish", err)
}

// runAtWork returns a run in a thread of its own, and its worker.
func runAtWork(ctx context.Context, sp *thole.Space) (*run.Handle, error) {
	th, err := thread.In(sp).Create(ctx, nil)
	if err != nil {
		return nil, err
	}
	if _, err := run.In(sp, nil).Start(ctx, th.ID, run.Request{Prompt: "go", Agent: "a"}); err != nil {
		return nil, err
	}
	return run.In(sp, nil).Claim(ctx, &run.ClaimOptions{Agent: "a"})
}

func enterSignal(ctx context.Context, sp *thole.Space, name string) error {
	h, err := runAtWork(ctx, sp)
	if err != nil {
		return err
	}
	signalled := run.In(sp, nil).Signal(ctx, h.ID(), name, nil)
	if _, err := h.Finish(ctx, run.Succeeded, ""); err != nil {
		return err
	}
	return signalled
}

func liveSignal(t *testing.T, e *statetest.Env, sp *thole.Space, name string) {
	ctx := t.Context()
	h, err := runAtWork(ctx, sp)
	must(t, "a run", err)
	rs := run.In(sp, nil)
	must(t, "signal", rs.Signal(ctx, h.ID(), name, json.RawMessage(`1`)))
	got, err := h.Wait(ctx, name)
	if err != nil || string(got) != "1" {
		t.Errorf("wait: got %s, %v", got, err)
	}
	must(t, "signal again", rs.Signal(ctx, h.ID(), name, nil))
	_, err = h.Finish(ctx, run.Succeeded, "")
	must(t, "finish", err)
}

func enterLock(mode lock.Mode, of func(string) (name, owner string)) func(context.Context, *thole.Space, string) error {
	return func(ctx context.Context, sp *thole.Space, n string) error {
		name, owner := of(n)
		l, err := lock.In(sp).Acquire(ctx, name, &lock.Options{Owner: owner, Mode: mode})
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}
}

func liveLock(t *testing.T, e *statetest.Env, sp *thole.Space, name string) {
	liveLocks(t, e, sp, name, "owner", lock.Exclusive)
}

func liveLockOwner(t *testing.T, e *statetest.Env, sp *thole.Space, name string) {
	liveLocks(t, e, sp, "f", name, lock.Exclusive)
}

func liveIntent(t *testing.T, e *statetest.Env, sp *thole.Space, name string) {
	liveLocks(t, e, sp, name, "o", lock.Intent)
}

func liveIntentOwner(t *testing.T, e *statetest.Env, sp *thole.Space, name string) {
	liveLocks(t, e, sp, "l", name, lock.Intent)
}

func liveLocks(t *testing.T, e *statetest.Env, sp *thole.Space, name, owner string, mode lock.Mode) {
	t.Helper()
	ctx := t.Context()
	ls := lock.In(sp)
	l, err := ls.Acquire(ctx, name, &lock.Options{Owner: owner, Mode: mode})
	must(t, "acquire", err)
	for _, other := range []string{"another", owner} { // the second waits for itself
		_, err = ls.Acquire(ctx, name, &lock.Options{Owner: other, Wait: time.Millisecond})
		if mode == lock.Exclusive && !errors.Is(err, thole.ErrConflict) && !errors.Is(err, thole.ErrDeadlock) {
			t.Errorf("wait for a lock: %v", err)
		} else if mode == lock.Intent && err == nil {
			info, err := ls.Get(ctx, name)
			must(t, "read", err)
			must(t, "release", ls.Release(ctx, name, thole.Fence{Key: "lock/" + keyPart(name) + "/owner", Token: info.Holder.Token}))
		}
	}
	must(t, "renew", l.Renew(ctx))
	page, err := ls.List(ctx, nil)
	if err != nil || len(page.Items) != 1 || page.Items[0].Name != name {
		t.Errorf("list: got %+v, %v", page, err)
	}
	must(t, "release", l.Release(ctx))
	_, err = ls.Acquire(ctx, name, &lock.Options{Owner: owner, Mode: mode})
	must(t, "acquire again", err)
	later(t, e, time.Hour)
	if info, err := ls.Get(ctx, name); err != nil || info.Holder != nil || len(info.Intents) > 0 {
		t.Errorf("after its time: got %+v, %v", info, err)
	}
	nothingLeft(t, sp, "lock/", "lockwaits/")
}

func keyPart(name string) string { return thole.KeyPart(name, thole.MaxNameBytes) }

func enterValue(of func(string) (string, string)) func(context.Context, *thole.Space, string) error {
	return func(ctx context.Context, sp *thole.Space, n string) error {
		ns, key := of(n)
		_, err := kv.In(sp).Set(ctx, ns, key, 1, nil)
		return err
	}
}

func liveValue(of func(string) (string, string)) func(*testing.T, *statetest.Env, *thole.Space, string) {
	return func(t *testing.T, e *statetest.Env, sp *thole.Space, n string) {
		ctx := t.Context()
		ns, key := of(n)
		values := kv.In(sp)
		for range 2 {
			_, err := values.Set(ctx, ns, key, 1, &kv.SetOptions{TTL: time.Minute})
			must(t, "set", err)
		}
		page, err := values.List(ctx, ns, &kv.ListOptions{Prefix: key})
		if err != nil || len(page.Items) != 1 || page.Items[0].Key != key {
			t.Errorf("list: got %+v, %v", page, err)
		}
		later(t, e, time.Hour)
		if v, err := values.Get(ctx, ns, key); err != nil || v.Exists {
			t.Errorf("after its time: got %+v, %v", v, err)
		}
		nothingLeft(t, sp, "kv/")
		_, err = values.Set(ctx, ns, key, 1, nil)
		must(t, "set", err)
		_, err = values.Delete(ctx, ns, key, nil)
		must(t, "delete", err)
	}
}

func liveDocument(t *testing.T, e *statetest.Env, sp *thole.Space, name string) {
	ctx := t.Context()
	docs := document.In(sp)
	var first thole.Position
	for i := range 8 { // enough for a snapshot beside the patches
		d, err := docs.Put(ctx, name, map[string]string{"fixed": strings.Repeat("x", 6000), "v": strings.Repeat(string(rune('a'+i)), 2000)}, nil)
		must(t, "put", err)
		if i == 0 {
			first = d.Version
		}
	}
	recs, err := sp.List(ctx, thole.ListQuery{Prefix: "snap/document/"})
	if err != nil || len(recs) == 0 {
		t.Fatalf("no value was kept whole: %v", err)
	}
	old, err := docs.Get(ctx, name, &document.GetOptions{At: first})
	if err != nil || old.Version != first {
		t.Errorf("the first version: got %+v, %v", old, err)
	}
	page, err := docs.List(ctx, nil)
	if err != nil || len(page.Items) != 1 || page.Items[0].Name != name {
		t.Errorf("list: got %+v, %v", page, err)
	}
	_, err = docs.Delete(ctx, name, nil)
	must(t, "delete", err)
}

func liveFile(t *testing.T, e *statetest.Env, sp *thole.Space, name string) {
	ctx := t.Context()
	files := file.In(sp)
	a, b := []byte("a"), []byte("b")
	_, err := files.Changed(ctx, name, "", file.Hash(a), nil)
	must(t, "change", err)
	_, err = files.Changed(ctx, name, file.Hash(a), file.Hash(b), &file.Contents{Before: a, After: b})
	must(t, "change again", err)
	_, err = files.Found(ctx, name, "")
	must(t, "found", err, files.Conflict(ctx, file.Conflict{Path: name}))
	h, err := files.History(ctx, name, nil)
	if err != nil || len(h.Items) != 3 {
		t.Errorf("history: got %+v, %v", h, err)
	}
	page, err := files.List(ctx, nil)
	if err != nil || len(page.Items) != 1 || page.Items[0].Path != name {
		t.Errorf("list: got %+v, %v", page, err)
	}
}

func enterTodo(ctx context.Context, sp *thole.Space, name string) error {
	th, err := thread.In(sp).Create(ctx, nil)
	if err != nil {
		return err
	}
	_, err = todo.In(sp).Add(ctx, th.ID, todo.Todo{ID: name, Content: "x"})
	return err
}

func liveTodo(t *testing.T, e *statetest.Env, sp *thole.Space, name string) {
	ctx := t.Context()
	id := newThread(t, sp, thread.CreateOptions{TTL: time.Minute})
	todos := todo.In(sp)
	_, err := todos.Add(ctx, id, todo.Todo{ID: name, Content: "x"})
	must(t, "add", err)
	done := todo.Completed
	_, err = todos.Update(ctx, id, name, todo.Patch{Status: &done})
	must(t, "change", err)
	must(t, "delete", todos.Delete(ctx, id, name))
	later(t, e, time.Hour)
	nothingLeft(t, sp, "thread/")
}

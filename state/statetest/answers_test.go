package statetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/thole-dev/thole"
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

// shop is what the operations work on.
type shop struct {
	sp                       *thole.Space
	thread, turn, run, ended string
	queued                   string
	decision, tool           string
	worker, lock             thole.Fence
}

func openShop(t *testing.T, sp *thole.Space) *shop {
	t.Helper()
	s, ctx := &shop{sp: sp}, t.Context()
	th := got(thread.In(sp).Create(ctx, nil))(t)
	s.thread = th.ID
	m := got(thread.In(sp).Append(ctx, th.ID, thread.Message{Role: thread.System, Blocks: []thread.Block{thread.TextBlock("be kind")}}, nil))(t)
	s.turn = m.Turn
	runs := run.In(sp, nil)
	s.ended = got(runs.Start(ctx, th.ID, run.Request{Prompt: "a", Agent: "x"}))(t).ID
	got(runs.Cancel(ctx, s.ended, run.ByUser))(t)
	s.run = got(runs.Start(ctx, th.ID, run.Request{Prompt: "b", Agent: "coder"}))(t).ID
	h := got(runs.Claim(ctx, &run.ClaimOptions{Agent: "coder"}))(t)
	s.worker = h.Fence()
	s.tool = got(h.StartTool(ctx, "Bash", nil, ""))(t)
	if err := runs.Signal(ctx, s.run, "go", json.RawMessage("1")); err != nil {
		t.Fatal(err)
	}
	s.queued = got(runs.Start(ctx, got(thread.In(sp).Create(ctx, nil))(t).ID, run.Request{Prompt: "c", Agent: "free"}))(t).ID
	s.lock = got(lock.In(sp).Acquire(ctx, "held", nil))(t).Fence
	s.decision = got(decision.In(sp).Plan(ctx, decision.Plan{Action: "pay"}))(t).ID
	got(todo.In(sp).Add(ctx, th.ID, todo.Todo{ID: "one", Content: "one"}))(t)
	got(document.In(sp).Put(ctx, "doc", map[string]int{"n": 1}, nil))(t)
	got(kv.In(sp).Set(ctx, "n", "k", 1, nil))(t)
	return s
}

// change changes what the operations work on, so that a second read sees something
// else.
func (s *shop) change(ctx context.Context) error {
	title, text := "later", "later"
	_, err1 := thread.In(s.sp).Patch(ctx, s.thread, thread.Patch{Title: &title}, nil)
	_, err2 := thread.In(s.sp).Append(ctx, s.thread, thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock(text)}}, nil)
	_, err3 := todo.In(s.sp).Set(ctx, s.thread, []todo.Todo{{ID: "later", Content: "later"}}, nil)
	_, err4 := document.In(s.sp).Put(ctx, "doc", "later", nil)
	_, err5 := kv.In(s.sp).Set(ctx, "n", "k", "later", nil)
	_, err6 := file.In(s.sp).Found(ctx, "a.txt", file.Hash([]byte("later")))
	_, err7 := kv.In(s.sp).Set(ctx, "n", "absent", "later", nil)
	err := errors.Join(err1, err2, err3, err4, err5, err6, err7)
	if errors.Is(err, thole.ErrNotFound) { // the operation destroyed the thread
		err = nil
	}
	return err
}

// operations are all operations of the concepts that take an idempotency key; each
// returns its answer.
func (s *shop) operations() map[string]func(ctx context.Context) (any, error) {
	ts, runs, todos, docs, values := thread.In(s.sp), run.In(s.sp, nil), todo.In(s.sp), document.In(s.sp), kv.In(s.sp)
	locks, files, ds := lock.In(s.sp), file.In(s.sp), decision.In(s.sp)
	type op = func(ctx context.Context) (any, error)
	none := func(fn func(ctx context.Context) error) op {
		return func(ctx context.Context) (any, error) { return nil, fn(ctx) }
	}
	worker := func(fn func(ctx context.Context, h *run.Handle) (any, error)) op {
		return func(ctx context.Context) (any, error) {
			h, err := runs.Attach(ctx, s.run, s.worker)
			if err != nil {
				return nil, err
			}
			return fn(ctx, h)
		}
	}
	title, model := "new", "m"
	return map[string]op{
		"thread.create": func(ctx context.Context) (any, error) { return ts.Create(ctx, &thread.CreateOptions{Title: "x"}) },
		"thread.patch": func(ctx context.Context) (any, error) {
			return ts.Patch(ctx, s.thread, thread.Patch{Title: &title}, nil)
		},
		"thread.append": func(ctx context.Context) (any, error) {
			return ts.Append(ctx, s.thread, thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock("hi")}}, nil)
		},
		"thread.post": func(ctx context.Context) (any, error) {
			t, version, err := ts.Post(ctx, s.thread, []thread.Block{thread.TextBlock("hi")}, []thread.Block{thread.TextBlock("ho")}, nil)
			return []any{t, version}, err
		},
		"thread.compact": none(func(ctx context.Context) error { return ts.Compact(ctx, s.thread, s.turn, "kind") }),
		"thread.destroy": none(func(ctx context.Context) error { return ts.Destroy(ctx, s.thread, nil) }),

		"todo.add": func(ctx context.Context) (any, error) { return todos.Add(ctx, s.thread, todo.Todo{Content: "x"}) },
		"todo.set": func(ctx context.Context) (any, error) {
			return todos.Set(ctx, s.thread, []todo.Todo{{Content: "x"}}, nil)
		},
		"todo.update": func(ctx context.Context) (any, error) {
			return todos.Update(ctx, s.thread, "one", todo.Patch{Content: &title})
		},
		"todo.delete": none(func(ctx context.Context) error { return todos.Delete(ctx, s.thread, "one") }),

		"kv.set": func(ctx context.Context) (any, error) {
			return values.Set(ctx, "n", "k", 2, &kv.SetOptions{TTL: time.Hour})
		},
		"kv.delete":          func(ctx context.Context) (any, error) { return values.Delete(ctx, "n", "k", nil) },
		"kv.delete, nothing": func(ctx context.Context) (any, error) { return values.Delete(ctx, "n", "absent", nil) },

		"document.put":          func(ctx context.Context) (any, error) { return docs.Put(ctx, "doc", 2, nil) },
		"document.put, nothing": func(ctx context.Context) (any, error) { return docs.Put(ctx, "doc", map[string]int{"n": 1}, nil) },
		"document.merge": func(ctx context.Context) (any, error) {
			return docs.MergePatch(ctx, "doc", json.RawMessage(`{"a":1}`), nil)
		},
		"document.delete": func(ctx context.Context) (any, error) { return docs.Delete(ctx, "doc", nil) },

		"file.changed": func(ctx context.Context) (any, error) {
			return files.Changed(ctx, "a.txt", "", file.Hash([]byte("x")), &file.Contents{After: []byte("x")})
		},
		"file.found":    func(ctx context.Context) (any, error) { return files.Found(ctx, "a.txt", file.Hash([]byte("y"))) },
		"file.conflict": none(func(ctx context.Context) error { return files.Conflict(ctx, file.Conflict{Path: "a.txt"}) }),

		"lock.acquire": func(ctx context.Context) (any, error) {
			l, err := locks.Acquire(ctx, "f", nil)
			if err != nil {
				return nil, err
			}
			return l.Owner + l.Fence.String(), nil
		},
		"lock.release": none(func(ctx context.Context) error { return locks.Release(ctx, "held", s.lock) }),

		"decision.plan":    func(ctx context.Context) (any, error) { return ds.Plan(ctx, decision.Plan{Action: "x"}) },
		"decision.order":   func(ctx context.Context) (any, error) { return ds.Order(ctx, decision.Plan{Action: "x"}) },
		"decision.resolve": func(ctx context.Context) (any, error) { return ds.Resolve(ctx, s.decision, decision.Done, 1) },

		"run.start": func(ctx context.Context) (any, error) { return runs.Start(ctx, s.thread, run.Request{Prompt: "x"}) },
		"run.edit": func(ctx context.Context) (any, error) {
			return runs.EditQueued(ctx, s.queued, run.Edit{Prompt: &title}, thole.Position{})
		},
		"run.cancel":  func(ctx context.Context) (any, error) { return runs.Cancel(ctx, s.run, run.ByUser) },
		"run.dequeue": func(ctx context.Context) (any, error) { return runs.Dequeue(ctx, s.queued) },
		"run.signal":  none(func(ctx context.Context) error { return runs.Signal(ctx, s.run, "other", nil) }),
		"run.claim": func(ctx context.Context) (any, error) {
			h, err := runs.Claim(ctx, &run.ClaimOptions{Agent: "free"})
			if err != nil {
				return nil, err
			}
			return []any{h.Claimed(), h.Turn(), h.Request(), h.Fence().String()}, nil
		},
		"run.wait":  worker(func(ctx context.Context, h *run.Handle) (any, error) { return h.Wait(ctx, "go") }),
		"run.block": worker(func(ctx context.Context, h *run.Handle) (any, error) { return h.Block(ctx, thread.TextBlock("x")) }),
		"run.append": worker(func(ctx context.Context, h *run.Handle) (any, error) {
			return nil, h.Append(ctx, thread.Delta{Block: "blk_00000000000000000000000000000001", Text: "x"})
		}),
		"run.start_tool": worker(func(ctx context.Context, h *run.Handle) (any, error) { return h.StartTool(ctx, "Edit", nil, "") }),
		"run.finish_tool": worker(func(ctx context.Context, h *run.Handle) (any, error) {
			return nil, h.FinishTool(ctx, s.tool, thread.ToolResult{})
		}),
		"run.add_usage": worker(func(ctx context.Context, h *run.Handle) (any, error) {
			return nil, h.AddUsage(ctx, "m", run.Usage{InputTokens: 1})
		}),
		"run.set_model": worker(func(ctx context.Context, h *run.Handle) (any, error) { return nil, h.SetModel(ctx, model) }),
		"run.finish":    worker(func(ctx context.Context, h *run.Handle) (any, error) { return h.Finish(ctx, run.Succeeded, "") }),
	}
}

// Each name that a concept's source gives to a call must be among the operations.
func TestTheOperationsAreAllThatTheSourcesName(t *testing.T) {
	elsewhere := []string{
		"document.change",                   // document.put and document.merge
		"run.do", "run.flush", "run.resume", // see package run
	}
	var ops map[string]func(context.Context) (any, error)
	statetest.Each(t, func(t *testing.T, e *statetest.Env) { ops = openShop(t, e.Space("project:shop")).operations() })
	sources, err := filepath.Glob("../*/*.go")
	if err != nil || len(sources) == 0 {
		t.Fatal(sources, err)
	}
	call := regexp.MustCompile(`thole\.Call\(ctx, "(\w+\.\w+)"`)
	for _, path := range sources {
		source := got(os.ReadFile(path))(t)
		for _, m := range call.FindAllStringSubmatch(string(source), -1) {
			if ops[m[1]] == nil && !slices.Contains(elsewhere, m[1]) {
				t.Errorf("%s: %s is not in the operations", path, m[1])
			}
		}
	}
}

func told(t *testing.T, answer any) string {
	t.Helper()
	return string(got(json.Marshal(answer))(t))
}

func once(t *testing.T) context.Context { return thole.WithIdempotencyKey(t.Context(), "once", "f") }

// Each operation is repeated after what it works on has changed.
func TestEveryOperationKeepsItsFirstAnswer(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		for name := range openShop(t, e.Space("project:names")).operations() {
			s := openShop(t, e.Space("project:"+thole.NewID("op")))
			op := s.operations()[name]
			first, err := op(once(t))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if err := s.change(t.Context()); err != nil {
				t.Fatalf("after %s: %v", name, err)
			}
			head := got(s.sp.Head(t.Context()))(t).Last
			again, err := s.operations()[name](once(t))
			if err != nil || told(t, again) != told(t, first) {
				t.Errorf("%s again: got %s, %v; want %s", name, told(t, again), err, told(t, first))
			}
			if now := got(s.sp.Head(t.Context()))(t).Last; now != head {
				t.Errorf("%s again: it changed the space", name)
			}
			var reused *thole.ReusedKeyError
			if _, err := op(thole.WithIdempotencyKey(t.Context(), "once", "another")); !errors.As(err, &reused) {
				t.Errorf("%s as another request: got %v, want *ReusedKeyError", name, err)
			}
		}
	})
}

// The process dies at each commit of each operation, before or after the commit is
// applied. A repeat finishes the operation, and in the end everything has happened
// once.
func TestEveryOperationThatDiedIsFinishedByARepeat(t *testing.T) {
	statetest.Deep(t, func(t *testing.T, e *statetest.Env) {
		want := make(map[string]string)
		for name := range openShop(t, e.Space("project:names")).operations() {
			s := openShop(t, e.Space("project:"+thole.NewID("op")))
			got(s.operations()[name](once(t)))(t)
			want[name] = types(t, s.sp)
		}
		for name := range want {
			statetest.AtEachCut(func(cut statetest.Cut) (died bool) {
				space := "project:" + thole.NewID("op")
				s := openShop(t, e.Space(space))
				dead := e.DieAt(cut)
				s.sp = e.Space(space)
				first, firstErr := s.operations()[name](once(t))
				died = dead()
				e.Reopen()
				s.sp = e.Space(space)
				for range 2 {
					again, err := s.operations()[name](once(t))
					if err != nil || firstErr == nil && told(t, again) != told(t, first) {
						t.Errorf("%s at %+v: got %s, %v; want %s", name, cut, told(t, again), err, told(t, first))
					}
					first, firstErr = again, err
				}
				if now := types(t, s.sp); now != want[name] {
					t.Errorf("%s at %+v: got events %s, want %s", name, cut, now, want[name])
				}
				return died
			})
		}
	})
}

func types(t *testing.T, sp *thole.Space) (all string) {
	t.Helper()
	for e, err := range sp.Events(t.Context(), thole.ReadQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		all += e.Type + " "
	}
	return all
}

func TestAKeyWhoseOperationWasRefusedMaySucceed(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		s := kv.In(e.Space("project:shop"))
		got(s.Set(t.Context(), "n", "k", 1, nil))(t)
		set := func() (kv.Entry, error) { return s.Set(once(t), "n", "k", 2, &kv.SetOptions{IfAbsent: true}) }
		if _, err := set(); !errors.Is(err, thole.ErrConflict) {
			t.Fatalf("got %v, want ErrConflict", err)
		}
		got(s.Delete(t.Context(), "n", "k", nil))(t)
		first := got(set())(t)
		if again := got(set())(t); told(t, again) != told(t, first) {
			t.Errorf("repeat: got %+v, want %+v", again, first)
		}
	})
}

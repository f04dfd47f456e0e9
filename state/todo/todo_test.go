package todo_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/todo"
)

func TestMain(m *testing.M) { statetest.Main(m) }

// thread writes what this package needs of a thread: its head record.
func thread(t *testing.T, sp *thole.Space) string {
	t.Helper()
	id := thole.NewID("thrd")
	_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
		tx.Put("thread/"+id, map[string]string{"id": id}, nil)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// replay folds the thread's events into a list, as a screen would.
func replay(t *testing.T, sp *thole.Space, thread string) []todo.Todo {
	t.Helper()
	var list []todo.Todo
	for e, err := range sp.Events(t.Context(), thole.ReadQuery{Stream: "thread/" + thread}) {
		if err != nil {
			t.Fatal(err)
		}
		var c todo.Change
		if err := e.As(&c); err != nil {
			t.Fatal(err)
		}
		byID, order := map[string]todo.Todo{}, []string{}
		for _, item := range append(list, c.Changed...) {
			if _, known := byID[item.ID]; !known {
				order = append(order, item.ID)
			}
			byID[item.ID] = item
		}
		for _, id := range c.Deleted {
			delete(byID, id)
		}
		if c.Order != nil {
			order = c.Order
		}
		list = nil
		for _, id := range order {
			if item, ok := byID[id]; ok {
				list = append(list, item)
			}
		}
	}
	return list
}

func TestTheFormattedListIsExact(t *testing.T) {
	want, err := os.ReadFile("testdata/list.golden")
	if err != nil {
		t.Fatal(err)
	}
	got := todo.AppendTo("Successfully created src/components/Button.tsx", []todo.Todo{
		{ID: "1", Content: "Create Button component", Status: todo.Completed, Priority: todo.High},
		{ID: "2", Content: "Add click handler", Status: todo.InProgress, Priority: todo.Medium},
		{ID: "3", Content: "Write tests", Status: todo.Pending, Priority: todo.Low},
		{ID: "4", Content: "Write docs\nfor it", Status: todo.Cancelled, Priority: todo.Low},
	})
	if got != string(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := todo.AppendTo("done", nil); got != "done" {
		t.Errorf("empty list: got %q, want nothing added", got)
	}
}

func TestContendedUpdatesBySubAgentsLoseNothing(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		id := thread(t, sp)
		const agents, each = 8, 10
		var wg sync.WaitGroup
		for a := range agents {
			wg.Go(func() {
				todos := todo.In(sp.As(fmt.Sprintf("agent:%d", a)))
				for i := range each {
					name := fmt.Sprintf("%d-%d", a, i)
					if _, err := todos.Add(ctx, id, todo.Todo{ID: name, Content: name}); err != nil {
						t.Error(err)
					}
					done := todo.Completed
					if _, err := todos.Update(ctx, id, name, todo.Patch{Status: &done}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		list, err := todo.In(sp).List(ctx, id)
		if err != nil || len(list.Todos) != agents*each {
			t.Fatalf("got %d todos, %v; want %d", len(list.Todos), err, agents*each)
		}
		next := map[string]int{} // by agent: each agent's todos are in its order
		for _, item := range list.Todos {
			want := fmt.Sprintf("%s-%d", item.Actor[len("agent:"):], next[item.Actor])
			if next[item.Actor]++; item.ID != want || item.Status != todo.Completed {
				t.Errorf("got %+v, want %s completed", item, want)
			}
		}
		if got, want := fmt.Sprint(replay(t, sp, id)), fmt.Sprint(list.Todos); got != want {
			t.Errorf("events replay to %s, want %s", got, want)
		}
	})
}

func TestEventsTellOnlyWhatChanged(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		id, todos := thread(t, sp), todo.In(sp)
		added, err := todos.Add(ctx, id, todo.Todo{ID: "1", Content: "a"}, todo.Todo{Content: "b"}, todo.Todo{ID: "3", Content: "c"})
		if err != nil {
			t.Fatal(err)
		}
		if added[1].Status != todo.Pending || added[1].Priority != todo.Medium || thole.CheckID("todo", added[1].ID) != nil {
			t.Errorf("defaults: got %+v", added[1])
		}
		high := todo.High
		steps := []func() error{
			func() error { _, err := todos.Update(ctx, id, "3", todo.Patch{Priority: &high}); return err },
			func() error { _, err := todos.Update(ctx, id, "3", todo.Patch{Priority: &high}); return err }, // no change, no event
			func() error { return todos.Delete(ctx, id, added[1].ID) },
			func() error {
				_, err := todos.Set(ctx, id, []todo.Todo{{ID: "3", Content: "c", Priority: high}, {ID: "1", Content: "a"}, {ID: "4", Content: "d"}}, nil)
				return err
			},
		}
		for i, step := range steps {
			if err := step(); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
		var got []string
		for ev, err := range sp.Events(ctx, thole.ReadQuery{Types: []string{todo.TypeChanged}}) {
			var c todo.Change
			if err != nil || ev.As(&c) != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("changed %d deleted %d order %v", len(c.Changed), len(c.Deleted), c.Order))
		}
		want := []string{"changed 3 deleted 0 order []", "changed 1 deleted 0 order []", "changed 0 deleted 1 order []", "changed 1 deleted 0 order [3 1 4]"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %q, want %q", got, want)
		}
		list, _ := todos.List(ctx, id)
		if got, want := fmt.Sprint(replay(t, sp, id)), fmt.Sprint(list.Todos); got != want {
			t.Errorf("events replay to %s, want %s", got, want)
		}
	})
}

func TestATodoNamesItsTimesAsThreadsAndRunsDo(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop").As("user:42")
		added, err := todo.In(sp).Add(t.Context(), thread(t, sp), todo.Todo{ID: "1", Content: "a"})
		if err != nil {
			t.Fatal(err)
		}
		at, _ := added[0].Created.MarshalText()
		want := fmt.Sprintf(`{"id":"1","content":"a","status":"pending","priority":"medium","created_at":"%s","updated_at":"%[1]s","actor":"user:42"}`, at)
		if got, err := json.Marshal(added[0]); err != nil || string(got) != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	})
}

func TestAListThatChangedIsNotReplacedUnseen(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		id, todos := thread(t, sp), todo.In(sp)
		seen, err := todos.Set(ctx, id, []todo.Todo{{ID: "1", Content: "a"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := todos.Add(ctx, id, todo.Todo{ID: "2", Content: "b"}); err != nil {
			t.Fatal(err)
		}
		_, err = todos.Set(ctx, id, nil, &todo.Options{IfMatch: seen.Version})
		if !errors.Is(err, thole.ErrConflict) {
			t.Errorf("got %v, want ErrConflict", err)
		}
	})
}

func TestBadTodosAreNamed(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		id, todos := thread(t, sp), todo.In(sp)
		add := func(thread string, items ...todo.Todo) error { _, err := todos.Add(ctx, thread, items...); return err }
		ok := todo.Todo{ID: "1", Content: "a"}
		if err := add(id, ok); err != nil {
			t.Fatal(err)
		}
		_, unknown := todos.Update(ctx, id, "9", todo.Patch{})
		for name, c := range map[string]struct{ got, want error }{
			"no thread":     {add(thole.NewID("thrd"), ok), thole.ErrNotFound},
			"bad thread id": {add("thrd_/../x", ok), thole.ErrInvalid},
			"id twice":      {add(id, ok), thole.ErrExists},
			"no content":    {add(id, todo.Todo{Content: " \n"}), thole.ErrInvalid},
			"bad status":    {add(id, todo.Todo{Content: "a", Status: "doing"}), thole.ErrInvalid},
			"bad priority":  {add(id, todo.Todo{Content: "a", Priority: "urgent"}), thole.ErrInvalid},
			"bad id":        {add(id, todo.Todo{Content: "a", ID: "a b"}), thole.ErrInvalid},
			"unknown todo":  {unknown, thole.ErrNotFound},
			"delete twice":  {todos.Delete(ctx, id, "9"), thole.ErrNotFound},
		} {
			if !errors.Is(c.got, c.want) {
				t.Errorf("%s: got %v, want %v", name, c.got, c.want)
			}
		}
	})
}

func TestRepeatUnderIdempotencyKeyAddsOnce(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		id, todos := thread(t, sp), todo.In(sp)
		var got [2][]todo.Todo
		for i := range got {
			var err error
			ctx := thole.WithIdempotencyKey(t.Context(), "once", "f")
			if got[i], err = todos.Add(ctx, id, todo.Todo{Content: "a"}); err != nil {
				t.Fatal(err)
			}
		}
		if fmt.Sprint(got[0]) != fmt.Sprint(got[1]) {
			t.Errorf("repeat: got %v, want %v", got[1], got[0])
		}
	})
}

// Package todo keeps the task list of a thread, for its agent and all its sub-agents. Every
// change applies to the current list, so concurrent updates are not lost.
//
// The record thread/<thread>/todos holds the whole list in order, so it is read and replaced
// atomically and deleted with its thread. The event todo.changed in the stream
// thread/<thread> holds only the items that changed.
package todo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/thole-dev/thole"
)

// TypeChanged is the type of this package's events; they hold a [Change].
const TypeChanged = "todo.changed"

// Status is the state of a todo.
type Status string

// The statuses of a todo.
const (
	Pending    Status = "pending"
	InProgress Status = "in_progress"
	Completed  Status = "completed"
	Cancelled  Status = "cancelled"
)

// Priority is how much a todo matters.
type Priority string

// The priorities of a todo.
const (
	High   Priority = "high"
	Medium Priority = "medium"
	Low    Priority = "low"
)

// Todo is one item of a list.
type Todo struct {
	ID       string    `json:"id" optional:"it gets a new one" doc:"unique in its thread"`
	Content  string    `json:"content" example:"Write the tests"`
	Status   Status    `json:"status" default:"pending" enum:"pending|in_progress|completed|cancelled"`
	Priority Priority  `json:"priority" default:"medium" enum:"high|medium|low"`
	Created  time.Time `json:"created_at,omitzero" doc:"set by Thole, whatever a PUT says"`
	Updated  time.Time `json:"updated_at,omitzero" doc:"set by Thole, whatever a PUT says"`
	Actor    string    `json:"actor,omitempty" doc:"who changed it last; set by Thole, whatever a PUT says"`
}

// List is a thread's todos in the order in which they were added.
type List struct {
	Todos   []Todo         `json:"items"`
	Version thole.Position `json:"version"` // zero: the thread never had a todo
}

// Change is the data of todo.changed.
type Change struct {
	Thread  string   `json:"thread"`
	Changed []Todo   `json:"changed,omitempty"` // added or changed, as they are now
	Deleted []string `json:"deleted,omitempty"`
	Order   []string `json:"order,omitempty"` // all ids in order, if it changed other than by adding at the end
}

// Todos are the task lists of one space's threads.
type Todos struct{ sp *thole.Space }

// In returns the task lists of sp's threads. Its store must have been given [Concept].
func In(sp *thole.Space) *Todos { return &Todos{sp: sp.For(Name)} }

// idName is the kind of ids that callers give. No key is made of them; complete
// says what else holds.
var idName = thole.NameKind{What: "todo"}

// Key returns the key of the record that holds a thread's list.
func Key(thread string) string { return "thread/" + thread + "/todos" }

// List returns a thread's todos. Errors: ErrNotFound if there is no such thread; ErrInvalid
// for a bad id.
func (t *Todos) List(ctx context.Context, thread string) (List, error) {
	if err := thole.CheckID("thrd", thread); err != nil {
		return List{}, err
	}
	recs, err := t.sp.GetAll(ctx, "thread/"+thread, Key(thread))
	if err != nil {
		return List{}, err
	}
	if !recs[0].Exists() {
		return List{}, fmt.Errorf("todos of %s: %w", thread, thole.ErrNotFound)
	}
	l := List{Version: recs[1].Version}
	if recs[1].Exists() {
		err = recs[1].As(&l.Todos)
	}
	return l, err
}

// Add appends todos to a thread's list and returns them as they were stored.
// Those without an id get one. All are added, or none. Errors: ErrNotFound (the
// thread), ErrExists (an id), ErrInvalid.
func (t *Todos) Add(ctx context.Context, thread string, todos ...Todo) ([]Todo, error) {
	ctx = thole.Call(ctx, "todo.add", thread)
	ctx = thole.Reread(ctx, rereadChanged)
	added := slices.Clone(todos)
	for i := range added {
		if err := added[i].complete(); err != nil {
			return nil, err
		}
	}
	added, _, err := change(ctx, t, thread, func(tx *thole.Tx, list []Todo) ([]Todo, []Todo, error) {
		for i := range added {
			if find(list, added[i].ID) >= 0 {
				return nil, nil, fmt.Errorf("todo %q: %w", added[i].ID, thole.ErrExists)
			}
			if err := idName.Check(added[i].ID); err != nil {
				return nil, nil, err
			}
			added[i].stamp(tx, t.sp, nil)
			list = append(list, added[i])
		}
		return list, added, nil
	})
	return added, err
}

// Options of a change to a whole list. The zero value makes no conditions.
type Options struct {
	IfMatch thole.Position // only over this version of the list; zero: whatever is there
}

// Set replaces the whole list by todos, in this order, and returns it. Without opts.IfMatch
// it also overwrites concurrent changes. Errors: *ConflictError if the list does not have
// version opts.IfMatch; ErrNotFound (the thread); ErrExists (an id occurs twice);
// ErrInvalid.
func (t *Todos) Set(ctx context.Context, thread string, todos []Todo, opts *Options) (List, error) {
	ctx = thole.Call(ctx, "todo.set", thread)
	ctx = thole.Reread(ctx, func(ctx context.Context, _ []thole.Event) (List, error) {
		return t.List(ctx, thread)
	})
	var o Options
	if opts != nil {
		o = *opts
	}
	want := slices.Clone(todos)
	for i := range want {
		if err := want[i].complete(); err != nil {
			return List{}, err
		}
		if find(want[:i], want[i].ID) >= 0 {
			return List{}, fmt.Errorf("todo %q: %w", want[i].ID, thole.ErrExists)
		}
	}
	now, r, err := change(ctx, t, thread, func(tx *thole.Tx, list []Todo) ([]Todo, List, error) {
		rec, err := tx.Require(Key(thread), thole.Condition{At: o.IfMatch})
		if err != nil {
			return nil, List{}, err
		}
		for i := range want {
			var was *Todo
			if j := find(list, want[i].ID); j >= 0 {
				was = &list[j]
			} else if err := idName.Check(want[i].ID); err != nil {
				return nil, List{}, err
			}
			want[i].stamp(tx, t.sp, was)
		}
		return want, List{Todos: want, Version: rec.Version}, nil
	})
	if !r.First.IsZero() {
		now.Version = r.Last
	}
	return now, err
}

// Patch is a change to a todo. Nil fields change nothing.
type Patch struct {
	Content  *string   `json:"content,omitempty"`
	Status   *Status   `json:"status,omitempty" enum:"pending|in_progress|completed|cancelled" example:"completed"`
	Priority *Priority `json:"priority,omitempty" enum:"high|medium|low"`
}

// Update changes one todo and returns it as it is now. Errors: ErrNotFound (the
// thread or the todo), ErrInvalid.
func (t *Todos) Update(ctx context.Context, thread, id string, p Patch) (Todo, error) {
	ctx = thole.Call(ctx, "todo.update", thread, id)
	ctx = thole.Reread(ctx, func(ctx context.Context, events []thole.Event) (Todo, error) {
		changed, err := rereadChanged(ctx, events)
		if err != nil {
			return Todo{}, err
		}
		return changed[0], nil
	})
	now, _, err := change(ctx, t, thread, func(tx *thole.Tx, list []Todo) ([]Todo, Todo, error) {
		i := find(list, id)
		if i < 0 {
			return nil, Todo{}, fmt.Errorf("todo %q: %w", id, thole.ErrNotFound)
		}
		was := list[i]
		now := was
		apply(&now.Content, p.Content)
		apply(&now.Status, p.Status)
		apply(&now.Priority, p.Priority)
		if err := now.complete(); err != nil {
			return nil, Todo{}, err
		}
		now.stamp(tx, t.sp, &was)
		list[i] = now
		return list, now, nil
	})
	return now, err
}

func apply[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// Delete deletes one todo. Errors: ErrNotFound (the thread or the todo); ErrInvalid.
func (t *Todos) Delete(ctx context.Context, thread, id string) error {
	ctx = thole.Call(ctx, "todo.delete", thread, id)
	_, _, err := change(ctx, t, thread, func(_ *thole.Tx, list []Todo) ([]Todo, struct{}, error) {
		i := find(list, id)
		if i < 0 {
			return nil, struct{}{}, fmt.Errorf("todo %q: %w", id, thole.ErrNotFound)
		}
		return slices.Delete(list, i, i+1), struct{}{}, nil
	})
	return err
}

func find(list []Todo, id string) int {
	return slices.IndexFunc(list, func(t Todo) bool { return t.ID == id })
}

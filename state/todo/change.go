package todo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
)

// change commits the list that edit returns for the thread's, with an event that holds the
// difference; if there is none it commits nothing. It returns edit's answer.
func change[T any](ctx context.Context, t *Todos, thread string, edit func(*thole.Tx, []Todo) ([]Todo, T, error)) (T, thole.Receipt, error) {
	none := *new(T)
	if err := thole.CheckID("thrd", thread); err != nil {
		return none, thole.Receipt{}, err
	}
	answer, r, err := thole.Update(ctx, t.sp, func(tx *thole.Tx) (T, error) {
		// The list must not outlive its thread.
		head, err := tx.Get("thread/" + thread)
		if err != nil {
			return none, err
		}
		if !head.Exists() {
			return none, fmt.Errorf("thread: %w", thole.ErrNotFound)
		}
		var list []Todo
		if _, err := tx.Load(Key(thread), &list); err != nil {
			return none, err
		}
		next, answer, err := edit(tx, slices.Clone(list))
		if err != nil {
			return none, err
		}
		c := diff(list, next)
		if c.Changed == nil && c.Deleted == nil && c.Order == nil {
			return answer, nil
		}
		c.Thread = thread
		tx.Put(Key(thread), next, nil)
		tx.Emit("thread/"+thread, TypeChanged, c)
		return answer, nil
	})
	if err != nil {
		return none, r, fmt.Errorf("todos of %s: %w", thread, err)
	}
	return answer, r, nil
}

// rereadChanged returns the todos that a commit changed: see [thole.Reread].
func rereadChanged(_ context.Context, events []thole.Event) ([]Todo, error) {
	for _, e := range events {
		var c Change
		if e.Type == TypeChanged && e.As(&c) == nil && len(c.Changed) > 0 {
			return c.Changed, nil
		}
	}
	return nil, fmt.Errorf("%w: the commit under this idempotency key changed no todo", thole.ErrCorrupt)
}

// diff returns the change that leads from list to next.
func diff(list, next []Todo) Change {
	var c Change
	var kept, ids []string
	for _, t := range next {
		ids = append(ids, t.ID)
		if i := find(list, t.ID); i < 0 || list[i] != t {
			c.Changed = append(c.Changed, t)
		}
	}
	for _, t := range list {
		if find(next, t.ID) < 0 {
			c.Deleted = append(c.Deleted, t.ID)
		} else {
			kept = append(kept, t.ID)
		}
	}
	// The order has changed unless the kept ones come first, in their old order.
	if !slices.Equal(kept, ids[:len(kept)]) {
		c.Order = ids
	}
	return c
}

// complete fills in defaults and checks the fields.
func (t *Todo) complete() error {
	if t.ID == "" {
		t.ID = thole.NewID("todo")
	}
	if t.Status == "" {
		t.Status = Pending
	}
	if t.Priority == "" {
		t.Priority = Medium
	}
	bad := func(what string, got any) error {
		return fmt.Errorf("%w: todo %.40q: %s %.40q", thole.ErrInvalid, t.ID, what, got)
	}
	switch {
	case len(t.ID) > 128 || strings.ContainsFunc(t.ID, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' || r == ']' }):
		return bad("an id has at most 128 bytes and no space, / or ], unlike", t.ID)
	case strings.TrimSpace(t.Content) == "":
		return bad("content is empty:", t.Content)
	case !slices.Contains([]Status{Pending, InProgress, Completed, Cancelled}, t.Status):
		return bad("status is not pending, in_progress, completed or cancelled:", t.Status)
	case !slices.Contains([]Priority{High, Medium, Low}, t.Priority):
		return bad("priority is not high, medium or low:", t.Priority)
	}
	return nil
}

// stamp sets t's times and actor. Was is t before the change, nil for a new todo; if
// nothing else differs, stamp keeps was's.
func (t *Todo) stamp(tx *thole.Tx, sp *thole.Space, was *Todo) {
	if was != nil {
		t.Created, t.Updated, t.Actor = was.Created, was.Updated, was.Actor
		if *t == *was {
			return
		}
	}
	t.Updated, t.Actor = tx.Now(), sp.Actor()
	if was == nil {
		t.Created = t.Updated
	}
}

package agent

import (
	"context"
	"fmt"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/todo"
)

type todoItem struct {
	ID       string        `json:"id,omitempty" jsonschema:"description=A short id; one is made if you give none"`
	Content  string        `json:"content" jsonschema:"minLength=1"`
	Status   todo.Status   `json:"status,omitempty" jsonschema:"enum=pending,enum=in_progress,enum=completed,enum=cancelled,default=pending"`
	Priority todo.Priority `json:"priority,omitempty" jsonschema:"enum=high,enum=medium,enum=low,default=medium"`
}

type todoInput struct {
	Action   string        `json:"action" jsonschema:"enum=list,enum=set,enum=add,enum=update,description=list shows it; set makes todos the whole list; add appends todos; update changes the todo with the id"`
	Todos    []todoItem    `json:"todos,omitempty" jsonschema:"description=For set and add"`
	ID       string        `json:"id,omitempty" jsonschema:"description=For update"`
	Content  *string       `json:"content,omitempty" jsonschema:"description=For update"`
	Status   todo.Status   `json:"status,omitempty" jsonschema:"enum=pending,enum=in_progress,enum=completed,enum=cancelled,description=For update"`
	Priority todo.Priority `json:"priority,omitempty" jsonschema:"enum=high,enum=medium,enum=low,description=For update"`
}

// changeTodos keeps the task list of the thread that the user asked in, which all
// sub-agents share.
func changeTodos(ctx context.Context, c *Context, call *Call, in todoInput) (Output, error) {
	if in.Action != "list" {
		err := c.act(ctx, call, action{Todos: c.TodoThread}, func(string) (outcome, error) {
			return outcome{}, changeList(ctx, c.Todos, c.TodoThread, in)
		})
		if err != nil {
			return Output{}, err
		}
	}
	list, err := c.Todo(ctx)
	if err != nil {
		return Output{}, err
	}
	done := 0
	for _, t := range list {
		if t.Status == todo.Completed {
			done++
		}
	}
	return Output{Text: fmt.Sprintf("The task list has %d items, %d of them completed.", len(list), done)}, nil
}

func changeList(ctx context.Context, list *todo.Todos, threadID string, in todoInput) error {
	todos := make([]todo.Todo, len(in.Todos))
	for i, t := range in.Todos {
		todos[i] = todo.Todo{ID: t.ID, Content: t.Content, Status: t.Status, Priority: t.Priority}
	}
	var err error
	switch in.Action {
	case "set":
		_, err = list.Set(ctx, threadID, todos, nil)
	case "add":
		if len(todos) == 0 {
			return fmt.Errorf("%w: add needs todos", thole.ErrInvalid)
		}
		_, err = list.Add(ctx, threadID, todos...)
	case "update":
		p := todo.Patch{Content: in.Content}
		if in.Status != "" {
			p.Status = &in.Status
		}
		if in.Priority != "" {
			p.Priority = &in.Priority
		}
		_, err = list.Update(ctx, threadID, in.ID, p)
	}
	return err
}

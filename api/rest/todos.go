package rest

import (
	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/todo"
)

func todoOperations() []operation {
	const all, one = "/v1/spaces/{space}/threads/{thread}/todos", "/v1/spaces/{space}/threads/{thread}/todos/{todo}"
	return []operation{
		{id: "listTodos", method: "GET", path: all, access: read,
			summary: "Read a thread's todos, in order", does: does(listTodos)},
		{id: "addTodo", method: "POST", path: all, access: write, works: true, status: 201, location: all + "/{id}",
			summary: "Add a todo", does: does(addTodo), failures: []failure{{journal.ErrExists, "there is a todo with that id"}}},
		{id: "putTodos", method: "PUT", path: all, access: write, works: true,
			summary: "Replace the whole list", does: does(putTodos)},
		{id: "updateTodo", method: "PATCH", path: one, access: write, works: true,
			summary: "Change a todo", does: does(updateTodo)},
		{id: "deleteTodo", method: "DELETE", path: one, access: write, works: true,
			summary: "Delete a todo", does: does(deleteTodo)},
	}
}

// Todos is a thread's list, or a part of it.
type Todos struct {
	Items      []todo.Todo    `json:"items"`
	Version    thole.Position `json:"version"`
	NextCursor string         `json:"next_cursor" doc:"empty unless a limit was given and more follows"`
}

func todos(l todo.List) Todos {
	if l.Todos == nil {
		l.Todos = []todo.Todo{}
	}
	return Todos{Items: l.Todos, Version: l.Version}
}

type listTodosIn struct {
	ofThread
	parts
}

func listTodos(c *call, in listTodosIn) (Todos, error) {
	l, err := todo.In(c.space).List(c.ctx, in.Thread)
	if err != nil {
		return Todos{}, err
	}
	list := todos(l)
	list.Items, list.NextCursor, err = part(in.parts, list.Items, func(t todo.Todo) string { return t.ID })
	return list, err
}

// NewTodo is a todo without what Thole sets.
type NewTodo struct {
	ID       string        `json:"id,omitempty" doc:"unique in its thread; without it, the todo gets a new one"`
	Content  string        `json:"content" example:"Write the tests"`
	Status   todo.Status   `json:"status" default:"pending" enum:"pending|in_progress|completed|cancelled"`
	Priority todo.Priority `json:"priority" default:"medium" enum:"high|medium|low"`
}

type addTodoIn struct {
	ofThread
	Body NewTodo
}

func addTodo(c *call, in addTodoIn) (todo.Todo, error) {
	b := in.Body
	added, err := todo.In(c.space).Add(c.ctx, in.Thread, todo.Todo{ID: b.ID, Content: b.Content, Status: b.Status, Priority: b.Priority})
	if err != nil {
		return todo.Todo{}, err
	}
	return added[0], nil
}

// NewTodos is a whole list of todos.
type NewTodos struct {
	Items []todo.Todo `json:"items" doc:"in order"`
}

type putTodosIn struct {
	ofThread
	ifMatch
	Body NewTodos
}

func putTodos(c *call, in putTodosIn) (Todos, error) {
	l, err := todo.In(c.space).Set(c.ctx, in.Thread, in.Body.Items, &todo.Options{IfMatch: in.IfMatch.at})
	return todos(l), err
}

type ofTodo struct {
	ofThread
	Todo string `path:"todo" doc:"the id of the todo" example:"todo_019f3a5e0c7d7b4e9a51c7e2f0a4b8d6"`
}

type updateTodoIn struct {
	ofTodo
	Body todo.Patch
}

func updateTodo(c *call, in updateTodoIn) (todo.Todo, error) {
	return todo.In(c.space).Update(c.ctx, in.Thread, in.Todo, in.Body)
}

func deleteTodo(c *call, in ofTodo) (none, error) {
	return none{}, todo.In(c.space).Delete(c.ctx, in.Thread, in.Todo)
}

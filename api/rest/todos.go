package rest

import (
	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/todo"
)

func todoRoutes() []route {
	const all, one = "/v1/spaces/{space}/threads/{thread}/todos", "/v1/spaces/{space}/threads/{thread}/todos/{todo}"
	return []route{
		{method: "GET", path: all, tag: "todos", access: read, etag: true, query: pagingParams(), summary: "Read a thread's todos, in order", do: gives(listTodos)},
		{method: "POST", path: all, tag: "todos", access: write, works: true, status: 201, summary: "Add a todo", do: takes(addTodo)},
		{method: "PUT", path: all, tag: "todos", access: write, works: true, etag: true, summary: "Replace the whole list", do: takes(putTodos)},
		{method: "PATCH", path: one, tag: "todos", access: write, works: true, summary: "Change a todo", do: takes(patchTodo)},
		{method: "DELETE", path: one, tag: "todos", access: write, works: true, summary: "Delete a todo", do: gives(deleteTodo)},
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

func listTodos(c *call) (Todos, error) {
	l, err := todo.In(c.space).List(c.ctx, c.r.PathValue("thread"))
	if err != nil {
		return Todos{}, err
	}
	c.version(l.Version)
	list := todos(l)
	list.Items, list.NextCursor, err = part(c, list.Items, func(t todo.Todo) string { return t.ID })
	return list, err
}

// NewTodo is a todo to add or to put.
type NewTodo struct {
	ID       string        `json:"id,omitempty" doc:"unique in its thread; default a new one"`
	Content  string        `json:"content"`
	Status   todo.Status   `json:"status,omitempty" enum:"pending|in_progress|completed|cancelled"`
	Priority todo.Priority `json:"priority,omitempty" enum:"high|medium|low"`
}

func (t NewTodo) todo() todo.Todo {
	return todo.Todo{ID: t.ID, Content: t.Content, Status: t.Status, Priority: t.Priority}
}

func addTodo(c *call, in NewTodo) (todo.Todo, error) {
	thread := c.r.PathValue("thread")
	added, err := todo.In(c.space).Add(c.ctx, thread, in.todo())
	if err != nil {
		return todo.Todo{}, err
	}
	c.created("threads", thread, "todos", added[0].ID)
	return added[0], nil
}

// NewTodos is a whole list.
type NewTodos struct {
	Items []todo.Todo `json:"items" doc:"in order; times and actors are the store's to say"`
}

func putTodos(c *call, in NewTodos) (Todos, error) {
	if in.Items == nil {
		return Todos{}, invalid("items", "is missing")
	}
	thread := c.r.PathValue("thread")
	at, err := c.versionOf()
	if err != nil {
		return Todos{}, err
	}
	l, err := todo.In(c.space).Set(c.ctx, thread, in.Items, &todo.Options{IfMatch: at})
	c.version(l.Version)
	return todos(l), err
}

func patchTodo(c *call, in todo.Patch) (todo.Todo, error) {
	return todo.In(c.space).Update(c.ctx, c.r.PathValue("thread"), c.r.PathValue("todo"), in)
}

func deleteTodo(c *call) (none, error) {
	return none{}, todo.In(c.space).Delete(c.ctx, c.r.PathValue("thread"), c.r.PathValue("todo"))
}

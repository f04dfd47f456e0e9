package rest

import (
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/look"
)

// paging is embedded by operations that answer with a page.
type paging struct {
	Limit  int    `query:"limit" default:"100" min:"1" max:"1000" doc:"at most this many items"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

// parts is embedded by operations that answer with a whole list or, if the request
// has a limit, a part of it.
type parts struct {
	Limit  int    `query:"limit" min:"1" max:"1000" doc:"at most this many items; without it all"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

// ofThread is embedded by operations on a thread.
type ofThread struct {
	Thread string `path:"thread" doc:"the id of the thread" example:"thrd_019f3a5e0c7d7b4e9a51c7e2f0a4b8d6"`
}

// pick returns a page of the items of a list for which keep returns true: those that
// the caller may know. It reads until the page is full, the list ends or the budget of
// one answer is spent. The page's cursor is the id of its last item, or an id that no
// item has: see [between].
func pick[T any](in paging, fetch func(cursor string, limit int) (thole.PageOf[T], error), keep func(T) bool, id func(T) string) (out thole.PageOf[T], err error) {
	var budget look.Budget
	for cursor, last := in.Cursor, in.Cursor; ; {
		found, err := fetch(cursor, budget.Page(in.Limit))
		if err != nil {
			return thole.PageOf[T]{}, err
		}
		for i, item := range found.Items {
			if !keep(item) {
				continue
			}
			last = id(item)
			if out.Items = append(out.Items, item); len(out.Items) == in.Limit {
				if i+1 < len(found.Items) || found.Next != "" {
					out.Next = last
				}
				return out, nil
			}
		}
		if cursor = found.Next; cursor == "" {
			return out, nil
		}
		budget.Took(found.Looked, found.Bytes)
		if next := max(last, between(cursor)); budget.Spent() && next != in.Cursor {
			out.Next = next
			return out, nil
		}
	}
}

// between returns a cursor shortly before an id that may be hidden. It has the
// millisecond of the id (see [thole.NewID]) and zeros for the rest, so it does not
// disclose the id.
func between(id string) string {
	kind, digits, _ := strings.Cut(id, "_")
	if len(digits) != 32 {
		return ""
	}
	return kind + "_" + digits[:12] + strings.Repeat("0", 20)
}

// part returns the part of items that the request asks for, and the cursor of the
// next part: the id of the last item, or "" at the end. Without a limit it returns all
// items after the cursor.
func part[T any](in parts, items []T, id func(T) string) ([]T, string, error) {
	if cursor := in.Cursor; cursor != "" {
		i := slices.IndexFunc(items, func(item T) bool { return id(item) == cursor })
		if i < 0 {
			return nil, "", invalid("cursor", "%.60q is no longer in the list; begin anew", cursor)
		}
		items = items[i+1:]
	}
	if in.Limit == 0 || len(items) <= in.Limit {
		return items, "", nil
	}
	return items[:in.Limit], id(items[in.Limit-1]), nil
}

package rest

import (
	"slices"
	"strings"

	"github.com/thole-dev/thole/internal/look"
)

// paging is embedded by operations that answer with a page.
type paging struct {
	Limit  int    `query:"limit" default:"100" min:"1" max:"1000" doc:"at most this many items"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

// parts is embedded by operations that answer with a list as a whole, or with a part
// of it.
type parts struct {
	Limit  int    `query:"limit" min:"1" max:"1000" doc:"at most this many items; without it all"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

// ofThread is embedded by operations on a thread.
type ofThread struct {
	Thread string `path:"thread" doc:"the id of the thread" example:"thrd_019f3a5e0c7d7b4e9a51c7e2f0a4b8d6"`
}

// looked is what one look at a list brought.
type looked[T any] struct {
	items []T
	next  string // "": the list ends
	from  int    // how many items they were picked from; 0: they cost next to nothing
	bytes int    // how large those are
}

// pick returns a page of the items of a list that the caller may know: keep says
// which. It looks on until the page is full, the list ends or it has looked at as
// much as one answer may. Its cursor is the id of the last item in it, or names none:
// see [between].
func pick[T any](in paging, fetch func(cursor string, limit int) (looked[T], error), keep func(T) bool, id func(T) string) (page[T], error) {
	var items []T
	var budget look.Budget
	begin, limit := in.Cursor, in.Limit
	for cursor, last := begin, begin; ; {
		found, err := fetch(cursor, budget.Page(limit))
		if err != nil {
			return page[T]{}, err
		}
		for i, item := range found.items {
			if !keep(item) {
				continue
			}
			last = id(item)
			if items = append(items, item); len(items) == limit {
				if i+1 == len(found.items) && found.next == "" {
					return pageOf(items, ""), nil
				}
				return pageOf(items, last), nil
			}
		}
		if cursor = found.next; cursor == "" {
			return pageOf(items, ""), nil
		}
		budget.Took(found.from, found.bytes)
		if next := max(last, between(cursor)); budget.Spent() && next != begin {
			return pageOf(items, next), nil
		}
	}
}

// between returns a cursor a little before an id, which may be hidden: it has the
// millisecond of the id (see [thole.NewID]) and names nothing.
func between(id string) string {
	kind, digits, _ := strings.Cut(id, "_")
	if len(digits) != 32 {
		return ""
	}
	return kind + "_" + digits[:12] + strings.Repeat("0", 20)
}

// part returns the part of a list that was read as a whole which the request asks
// for, and the cursor of the next one: the id of the last item. Without a limit
// it is all that follows.
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

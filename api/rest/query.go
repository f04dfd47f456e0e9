package rest

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/look"
)

// knownQuery reports parameters that the route does not have: a typo in one must
// not silently read something else.
func (c *call) knownQuery() error {
	var err error
	if c.query, err = url.ParseQuery(c.r.URL.RawQuery); err != nil {
		return invalid("query", "cannot be read: %v", err)
	}
	for name, values := range c.query {
		switch {
		case !c.route.declares(name):
			return invalid(brief(name), "is no parameter here; see /docs")
		case len(values) > 1:
			return invalid(name, "is given %d times", len(values))
		case values[0] == "" && name != "after":
			return invalid(name, "is empty; leave it out if there is nothing to say")
		}
	}
	return nil
}

// paging is embedded by operations that answer with a page.
type paging struct {
	Limit  int    `query:"limit" default:"100" min:"1" max:"1000" doc:"at most this many items"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

// ofThread is embedded by operations on a thread.
type ofThread struct {
	Thread string `path:"thread" doc:"the id of the thread" example:"thrd_019f3a5e0c7d7b4e9a51c7e2f0a4b8d6"`
}

// Query parameters. A value that cannot be read is ErrInvalid, naming it.

// args returns the values of a parameter of the route. One that the route does
// not declare could never be given, so asking for it is a bug.
func (c *call) args(name string) []string {
	if !c.route.declares(name) {
		panic(fmt.Sprintf("%s %s does not declare its parameter %s", c.route.method, c.route.path, name))
	}
	return c.query[name]
}

// arg returns the first value of a parameter; "" when it is absent.
func (c *call) arg(name string) string {
	if all := c.args(name); len(all) > 0 {
		return all[0]
	}
	return ""
}

func (c *call) has(name string) bool { return len(c.args(name)) > 0 }

func (c *call) limit(def int) (int, error) {
	s := c.arg("limit")
	if s == "" {
		return def, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > thole.MaxPage {
		return 0, invalid("limit", "%.40q is not a number from 1 to %d", s, thole.MaxPage)
	}
	return n, nil
}

func (c *call) position(name string) (thole.Position, error) {
	p, err := thole.ParsePosition(c.arg(name))
	if err != nil {
		return p, invalid(name, "%.60q is not a position", c.arg(name))
	}
	return p, nil
}

// zeroTime refuses what is to Go a time that is absent, and so would mean never.
const zeroTime = "is the first moment of the year 1; leave it out for none"

func (c *call) time(name string) (time.Time, error) {
	s := c.arg(name)
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return t, invalid(name, "%.60q is not a time such as 2026-01-31T12:00:00Z", s)
	}
	if t.IsZero() {
		return t, invalid(name, zeroTime)
	}
	return t, nil
}

func (c *call) flag(name string) (bool, error) {
	switch s := c.arg(name); s {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	default:
		return false, invalid(name, "%.40q is neither true nor false", s)
	}
}

func (c *call) list(name string) []string {
	var out []string
	for _, v := range c.args(name) {
		for part := range strings.SplitSeq(v, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
	}
	return out
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
func pick[T any](c *call, limit int, fetch func(cursor string, limit int) (looked[T], error), keep func(T) bool, id func(T) string) (page[T], error) {
	return pickFrom(paging{limit, c.arg("cursor")}, fetch, keep, id)
}

func pickFrom[T any](in paging, fetch func(cursor string, limit int) (looked[T], error), keep func(T) bool, id func(T) string) (page[T], error) {
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
func part[T any](c *call, items []T, id func(T) string) ([]T, string, error) {
	limit, err := c.limit(len(items))
	if err != nil {
		return nil, "", err
	}
	if cursor := c.arg("cursor"); cursor != "" {
		i := slices.IndexFunc(items, func(item T) bool { return id(item) == cursor })
		if i < 0 {
			return nil, "", invalid("cursor", "%.60q is no longer in the list; begin anew", cursor)
		}
		items = items[i+1:]
	}
	if len(items) <= limit {
		return items, "", nil
	}
	return items[:limit], id(items[limit-1]), nil
}

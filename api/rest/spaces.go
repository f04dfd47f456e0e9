package rest

import (
	"fmt"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
)

func spaceRoutes() []route {
	paging := pagingParams()
	return []route{
		{method: "GET", path: "/v1/spaces", tag: "spaces", access: anyToken, query: paging,
			summary: "List the spaces that the caller may read", do: gives(listSpaces)},
		{method: "DELETE", path: "/v1/spaces/{space}", tag: "spaces", access: admin,
			summary: "Delete a space with everything in it, for good", do: gives(deleteSpace)},
	}
}

func pagingParams() []param {
	return []param{
		{"limit", "integer", "at most this many items, up to 1,000"},
		{"cursor", "string", "next_cursor of the page before"},
	}
}

// Space describes a space.
type Space struct {
	Name   string         `json:"name"`
	Oldest thole.Position `json:"oldest" jsonschema:"description=the first position that is kept"`
	Last   thole.Position `json:"last" jsonschema:"description=the newest position"`
}

func listSpaces(c *call) (page[Space], error) {
	limit, err := c.limit(100)
	if err != nil {
		return page[Space]{}, err
	}
	names, next, err := c.readable(limit)
	if err != nil || len(names) == 0 {
		return pageOf[Space](nil, next), err
	}
	heads, err := c.api.store.Backend().Heads(c.ctx, names...)
	if err != nil {
		return page[Space]{}, err
	}
	items := make([]Space, len(heads))
	for i, h := range heads {
		items[i] = Space{Name: h.Space, Oldest: h.Oldest, Last: h.Last}
	}
	return pageOf(items, next), nil
}

// readable returns up to limit names of spaces that the caller may read, and
// where to go on. It looks at a bounded number of spaces, so it may return
// fewer.
func (c *call) readable(limit int) (names []string, next string, err error) {
	q := thole.SpacesQuery{After: c.arg("cursor"), Limit: limit}
	for range 10 {
		found, err := c.api.store.Spaces(c.ctx, q)
		if err != nil {
			return nil, "", err
		}
		for _, name := range found {
			if _, err := c.allowed(name, auth.Read); err == nil {
				names = append(names, name)
			}
			if q.After = name; len(names) == limit {
				return names, name, nil
			}
		}
		if len(found) < q.Limit {
			return names, "", nil
		}
	}
	return names, q.After, nil
}

func deleteSpace(c *call) (none, error) {
	if c.space.Name() == "global" {
		return none{}, fmt.Errorf("%w: global holds the tokens and is not deleted from outside", ErrForbidden)
	}
	return none{}, c.space.Purge(c.ctx, thole.Purge{All: true})
}

package rest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/journal/problem"
)

func spaceOperations() []operation {
	return []operation{
		{id: "listSpaces", method: "GET", path: "/v1/spaces", access: anyToken, needs: "a valid token, and lists what its grants let it read",
			summary: "List the spaces that the caller may read", does: does(listSpaces)},
		{id: "deleteSpace", method: "DELETE", path: "/v1/spaces/{space}", access: admin,
			summary: "Delete a space with everything in it, for good", does: does(deleteSpace),
			failures: []failure{{journal.ErrNotFound, "there is no such space"}}},
	}
}

// Space describes a space.
type Space struct {
	Name   string         `json:"name"`
	Oldest thole.Position `json:"oldest" doc:"the first position that is kept"`
	Last   thole.Position `json:"last" doc:"the newest position"`
}

func listSpaces(c *call, in paging) (page[Space], error) {
	p, err := c.readable(in)
	out := thole.PageOf[Space]{Next: p.Next}
	if err != nil || len(p.Items) == 0 {
		return pageOf(out, err)
	}
	heads, err := c.api.store.Heads(c.ctx, p.Items...)
	if c.present(err) != nil {
		return page[Space]{}, err
	}
	for _, h := range heads {
		if h.Space != "" { // else its store stopped answering after it was listed
			out.Items = append(out.Items, Space{Name: h.Space, Oldest: h.Oldest, Last: h.Last})
		}
	}
	return pageOf(out, nil)
}

// present returns err, or nil if err only reports that some of several stores do not
// answer. Then the answer covers the other stores, and the header Thole-Unreachable
// holds the patterns of the missing spaces.
func (c *call) present(err error) error {
	var away *thole.UnreachableError
	if !errors.As(err, &away) {
		return err
	}
	c.w.Header().Set("Thole-Unreachable", strings.Join(away.Patterns(), ", "))
	return nil
}

// readable returns a page of the names of spaces that the caller may read. For a
// caller whose grants all name one space those are the names, whether or not the
// spaces exist.
func (c *call) readable(in paging) (thole.PageOf[string], error) {
	self := func(name string) string { return name }
	if named, all := c.named(); all {
		return pick(in, func(cursor string, _ int) (thole.PageOf[string], error) {
			i, found := slices.BinarySearch(named, cursor)
			if found {
				i++
			}
			return thole.PageOf[string]{Items: named[i:]}, nil
		}, func(string) bool { return true }, self)
	}
	look := in.Limit
	return pick(in, func(cursor string, _ int) (thole.PageOf[string], error) {
		found, err := c.api.store.Spaces(c.ctx, thole.SpacesQuery{After: cursor, Limit: look})
		if err = c.present(err); err != nil || len(found) < look {
			return thole.PageOf[string]{Items: found}, err
		}
		look = thole.MaxPage // names are small
		return thole.PageOf[string]{Items: found, Next: found[len(found)-1]}, nil
	}, func(name string) bool {
		_, err := c.allowed(name, auth.Read)
		return err == nil
	}, self)
}

// named returns the names of spaces in the caller's grants, in order. all is false if
// the caller may read others too, because a grant has a pattern or there are no tokens.
func (c *call) named() (names []string, all bool) {
	if c.token == nil {
		return nil, false
	}
	for _, g := range c.token.Grants {
		if strings.Contains(g.Space, "*") {
			return nil, false
		}
		names = append(names, g.Space)
	}
	slices.Sort(names)
	return slices.Compact(names), true
}

func deleteSpace(c *call, _ none) (none, error) {
	if c.space.Name() == "global" {
		return none{}, fmt.Errorf("%w: global holds the tokens and is not deleted from outside", problem.ErrForbidden)
	}
	// A client that disconnects must not stop the purge halfway.
	return none{}, c.space.Purge(context.WithoutCancel(c.ctx), thole.Purge{All: true})
}

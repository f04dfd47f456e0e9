package rest

import (
	"maps"
	"slices"
)

// Operations returns the pattern of everything that the API serves, and of an
// operation that also answers with an event stream the same with " (SSE)".
func (a *API) Operations() []string {
	all := slices.Collect(maps.Keys(a.operations()))
	for i := range a.routes {
		rt := &a.routes[i]
		pattern := rt.method + " " + rt.path
		all = append(all, pattern)
		if rt.stream != nil {
			all = append(all, pattern+" (SSE)")
		}
	}
	slices.Sort(all)
	return all
}

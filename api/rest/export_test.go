package rest

import (
	"maps"
	"slices"
)

// operations returns all operations under /v1.
func operations() []operation { return compile(groups()) }

// Operations returns the pattern of every operation of the API. If an operation also
// answers with an event stream, its pattern is there again with " (SSE)".
func (a *API) Operations() []string {
	all := slices.Collect(maps.Keys(a.operators()))
	for i := range a.table {
		op := &a.table[i]
		pattern := op.method + " " + op.path
		all = append(all, pattern)
		if op.isStream() {
			all = append(all, pattern+" (SSE)")
		}
	}
	slices.Sort(all)
	return all
}

// Package cycle finds cycles in a directed graph.
package cycle

import (
	"maps"
	"slices"
)

// Find calls found with the last edge of each cycle that a depth-first search meets:
// from leads back to to. The nodes below each node are below[node].
func Find(below map[string][]string, found func(from, to string)) {
	const above, done = 1, 2
	below, state := maps.Clone(below), make(map[string]int)
	for _, top := range slices.Sorted(maps.Keys(below)) {
		for path := []string{top}; len(path) > 0; { // not recursive: a path may be long
			at := path[len(path)-1]
			state[at] = above
			if len(below[at]) == 0 {
				state[at] = done
				path = path[:len(path)-1]
				continue
			}
			next := below[at][0]
			below[at] = below[at][1:]
			switch state[next] {
			case above:
				found(at, next)
			case 0:
				path = append(path, next)
			}
		}
	}
}

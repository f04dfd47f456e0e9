package main

import "fmt"

const threads = 1000

func benches() []bench {
	var all []bench
	for _, n := range []int{1, 16, 64} {
		all = append(all, bench{
			name: fmt.Sprintf("append/%d", n), unit: "/s",
			sides: []side{
				{"raw limit: preallocated file, group sync", limit(n, true)},
				{"raw: growing file, group sync", limit(n, false)},
				{"plain SQLite, a transaction per append", plainSQLite(n, threads)},
			},
		})
	}
	return all
}

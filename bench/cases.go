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
				{"Thole on SQLite: event, head record, check", tholeAppends(n, threads)},
			},
		})
	}
	for _, rate := range []int{100, 300, 0} {
		name := fmt.Sprintf("sse/%d-per-second", rate)
		if rate == 0 {
			name = "sse/most"
		}
		all = append(all, bench{
			name: name, unit: "delivered/s",
			sides: []side{
				{"raw net/http broadcaster", sse("raw", rate)},
				{"Thole: durable, resumable", sse("thole", rate)},
			},
		})
	}
	return all
}

package main

import (
	"fmt"

	"github.com/thole-dev/thole"
)

const threads = 1000

// libraries are the stores that are read, of 100, 10,000 and 1,000,000 messages.
var libraries = [3]*library{{}, {}, {}}

func benches() []bench {
	var all []bench
	for _, n := range []int{1, 16, 64, 256} {
		all = append(all, bench{
			name: fmt.Sprintf("append/%d", n), unit: "/s",
			sides: []side{
				{"raw limit: preallocated file, group sync", limit(n, true)},
				{"raw: growing file, group sync", limit(n, false)},
				{"plain SQLite, a transaction per append", plainSQLite(n, threads)},
				{"by hand: SQLite, group commit, same rows", groupSQLite(n, threads)},
				{"ADK Go's session service on SQLite", adkAppends(n, threads)},
				{"Thole on SQLite: event, head record, check", tholeAppends(sqlite, n, threads)},
			},
		})
	}
	for _, n := range []int{1, 16, 64} {
		all = append(all, bench{
			name: fmt.Sprintf("file/%d", n), unit: "/s",
			sides: []side{
				{"raw: growing file, group sync", limit(n, false)},
				{"Thole on files: event, head record, check", tholeAppends(files, n, threads)},
			},
		}, bench{
			name: fmt.Sprintf("postgres/%d", n), unit: "/s",
			sides: []side{
				{"by hand: a transaction per append", plainPostgres(n, threads)},
				{"by hand: group insert", groupPostgres(n, threads)},
				{"Thole on PostgreSQL: event, head, check", tholeAppends(postgres, n, threads)},
			},
		}, bench{
			name: fmt.Sprintf("remote/%d", n), unit: "/s",
			sides: []side{
				{"Thole on SQLite", tholeAppends(sqlite, n, threads)},
				{"through a server on SQLite", tholeAppends(through(sqlite), n, threads)},
				{"Thole on files", tholeAppends(files, n, threads)},
				{"through a server on files", tholeAppends(through(files), n, threads)},
				{"Thole on PostgreSQL", tholeAppends(postgres, n, threads)},
				{"through a server on PostgreSQL", tholeAppends(through(postgres), n, threads)},
			},
		})
	}
	all = append(all, bench{
		name: "mem/64", unit: "/s",
		sides: []side{{"Thole in memory: event, head record, check", tholeAppends(memory, 64, threads)}},
	}, bench{
		name: "idle: watchers of as many spaces on PostgreSQL", unit: "transactions/s",
		sides: []side{
			{"1,000", idleWatchers(1000)},
			{"10,000", idleWatchers(10_000)},
		},
	})
	all = append(all, bench{
		name: "loads: the last 50 messages of a thread", unit: "/s",
		sides: []side{
			{"turn 100, one thread", loads(libraries[0], 2, 1, 100, nil)},
			{"turn 10,000, one thread", loads(libraries[1], 2, 1, 10_000, nil)},
			{"1,000,000 messages in 1,000 threads", loads(libraries[2], 2, 1000, 1000, nil)},
			{"the same, nothing kept decoded", loads(libraries[2], 2, 1000, 1000, &thole.Options{ProjectionBytes: 1})},
		},
	}, bench{
		name: "rest/64", unit: "appends/s",
		sides: []side{
			{"raw net/http that does nothing", restAppends(64, true)},
			{"Thole: durable append of a message", restAppends(64, false)},
		},
	})
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

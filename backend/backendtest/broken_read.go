package backendtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thole-dev/thole/journal"
)

// reading is a good backend with some reads replaced.
type reading struct {
	journal.Backend
	get    func(ctx context.Context, good journal.Backend, space string, keys []string) ([]journal.Record, error)
	list   func(ctx context.Context, good journal.Backend, space string, q journal.ListQuery) ([]journal.Record, error)
	read   func(ctx context.Context, good journal.Backend, space string, q journal.ReadQuery) (journal.Page, error)
	heads  func(ctx context.Context, good journal.Backend, spaces []string) ([]journal.Head, error)
	spaces func(ctx context.Context, good journal.Backend, q journal.SpacesQuery) ([]string, error)
}

func (b reading) Get(ctx context.Context, space string, keys ...string) ([]journal.Record, error) {
	if b.get == nil {
		return b.Backend.Get(ctx, space, keys...)
	}
	return b.get(ctx, b.Backend, space, keys)
}

func (b reading) List(ctx context.Context, space string, q journal.ListQuery) ([]journal.Record, error) {
	if b.list == nil {
		return b.Backend.List(ctx, space, q)
	}
	return b.list(ctx, b.Backend, space, q)
}

func (b reading) Read(ctx context.Context, space string, q journal.ReadQuery) (journal.Page, error) {
	if b.read == nil {
		return b.Backend.Read(ctx, space, q)
	}
	return b.read(ctx, b.Backend, space, q)
}

func (b reading) Heads(ctx context.Context, spaces ...string) ([]journal.Head, error) {
	if b.heads == nil {
		return b.Backend.Heads(ctx, spaces...)
	}
	return b.heads(ctx, b.Backend, spaces)
}

func (b reading) Spaces(ctx context.Context, q journal.SpacesQuery) ([]string, error) {
	if b.spaces == nil {
		return b.Backend.Spaces(ctx, q)
	}
	return b.spaces(ctx, b.Backend, q)
}

// replacing returns a wrapper that replaces the reads that r sets.
func replacing(r reading) func(journal.Backend) journal.Backend {
	return func(good journal.Backend) journal.Backend {
		r.Backend = good
		return r
	}
}

func brokenReads() []broken {
	return []broken{
		{"events are ordered by time", "commit/clocks order nothing", wrapped(replacing(reading{read: readByTime}))},
		{"an event appears after a later one", "concurrency/no reader sees a seq before an earlier one", wrapped(showLate)},
		{"reads go behind acknowledgements", "commit/a write replaces and a nil value deletes", wrapped(readStale)},
		{"a foreign cursor replays everything", "cursor/of a foreign epoch is trimmed", wrapped(replacing(reading{read: replayTrimmed}))},
		{"a cursor beyond the head waits silently", "cursor/beyond the head is trimmed", wrapped(replacing(reading{read: waitTrimmed}))},
		{"a trimmed cursor skips the gap", "cursor/older than what is kept is trimmed", wrapped(replacing(reading{read: replayTrimmed}))},
		{"a full page claims to be the last", "read/pages of any size lose and repeat nothing", wrapped(replacing(reading{read: stopEarly}))},
		{"types match by their beginning", "read/types are literal but for the verb", wrapped(replacing(reading{read: matchLoosely}))},
		{"a prefix matches beyond its slash", "record/a prefix selects exactly what starts with it", wrapped(replacing(reading{list: listLoosely}))},
		{"lists are not in byte order", "record/list is in byte order", wrapped(replacing(reading{list: listFolded}))},
		{"the engine's clock hides expired records", "expiry/expired records are returned as they are", wrapped(replacing(reading{get: hideExpired}))},
		{"what is due is listed late", "expiry/list shows what is due, in key order", wrapped(replacing(reading{list: listLate}))},
		{"spaces with something due are named late", "expiry/spaces with something due are never left out", wrapped(replacing(reading{spaces: spacesLate}))},
		{"heads are sorted by name", "space/heads answer in the order asked", wrapped(replacing(reading{heads: sortHeads}))},
	}
}

func readByTime(ctx context.Context, good journal.Backend, space string, q journal.ReadQuery) (journal.Page, error) {
	page, err := good.Read(ctx, space, q)
	slices.SortStableFunc(page.Events, func(a, b journal.Event) int {
		if q.Backward {
			return b.Time.Compare(a.Time)
		}
		return a.Time.Compare(b.Time)
	})
	return page, err
}

// showLate omits the last but one event of a page once.
func showLate(good journal.Backend) journal.Backend {
	var mu sync.Mutex
	shown := map[journal.Position]bool{}
	return reading{Backend: good, read: func(ctx context.Context, good journal.Backend, space string, q journal.ReadQuery) (journal.Page, error) {
		page, err := good.Read(ctx, space, q)
		mu.Lock()
		defer mu.Unlock()
		if n := len(page.Events); n > 1 && !shown[page.Events[n-2].Position] {
			shown[page.Events[n-2].Position] = true
			page.Events = slices.Delete(page.Events, n-2, n-1)
		}
		return page, err
	}}
}

// readStale answers Get of a written key with the record before its last write.
func readStale(good journal.Backend) journal.Backend {
	var mu sync.Mutex
	seen := map[string]journal.Record{}
	return committingReads{reading{Backend: good, get: func(ctx context.Context, good journal.Backend, space string, keys []string) ([]journal.Record, error) {
		records, err := good.Get(ctx, space, keys...)
		mu.Lock()
		defer mu.Unlock()
		for i := range records {
			if old, ok := seen[keys[i]]; ok {
				records[i] = old
			}
		}
		return records, err
	}}, func(batch []journal.Commit) {
		for _, c := range batch {
			for _, w := range c.Writes {
				before, _ := good.Get(context.Background(), c.Space, w.Key)
				mu.Lock()
				if len(before) == 1 {
					seen[w.Key] = before[0]
				}
				mu.Unlock()
			}
		}
	}}
}

// committingReads calls before before every batch.
type committingReads struct {
	reading
	before func(batch []journal.Commit)
}

func (b committingReads) Commit(ctx context.Context, batch []journal.Commit) ([]journal.Result, error) {
	b.before(batch)
	return b.reading.Commit(ctx, batch)
}

func replayTrimmed(ctx context.Context, good journal.Backend, space string, q journal.ReadQuery) (journal.Page, error) {
	page, err := good.Read(ctx, space, q)
	if errors.Is(err, journal.ErrTrimmed) {
		q.After = journal.Position{}
		return good.Read(ctx, space, q)
	}
	return page, err
}

func waitTrimmed(ctx context.Context, good journal.Backend, space string, q journal.ReadQuery) (journal.Page, error) {
	page, err := good.Read(ctx, space, q)
	if errors.Is(err, journal.ErrTrimmed) {
		return journal.Page{}, nil
	}
	return page, err
}

func stopEarly(ctx context.Context, good journal.Backend, space string, q journal.ReadQuery) (journal.Page, error) {
	page, err := good.Read(ctx, space, q)
	page.Next = journal.Position{}
	return page, err
}

func matchLoosely(ctx context.Context, good journal.Backend, space string, q journal.ReadQuery) (journal.Page, error) {
	types := q.Types
	q.Types = nil
	page, err := good.Read(ctx, space, q)
	page.Events = slices.DeleteFunc(page.Events, func(ev journal.Event) bool {
		return len(types) > 0 && !slices.ContainsFunc(types, func(t string) bool { return strings.HasPrefix(ev.Type, strings.TrimSuffix(t, ".*")) })
	})
	return page, err
}

func listLoosely(ctx context.Context, good journal.Backend, space string, q journal.ListQuery) ([]journal.Record, error) {
	prefix := strings.TrimSuffix(q.Prefix, "/")
	q.Prefix = ""
	records, err := good.List(ctx, space, q)
	return slices.DeleteFunc(records, func(r journal.Record) bool { return !strings.HasPrefix(r.Key, prefix) }), err
}

func listFolded(ctx context.Context, good journal.Backend, space string, q journal.ListQuery) ([]journal.Record, error) {
	records, err := good.List(ctx, space, q)
	slices.SortStableFunc(records, func(a, b journal.Record) int { return strings.Compare(lower(a.Key), lower(b.Key)) })
	return records, err
}

func hideExpired(ctx context.Context, good journal.Backend, space string, keys []string) ([]journal.Record, error) {
	records, err := good.Get(ctx, space, keys...)
	for i := range records {
		if records[i].Expired(time.Now()) {
			records[i] = journal.Record{}
		}
	}
	return records, err
}

func listLate(ctx context.Context, good journal.Backend, space string, q journal.ListQuery) ([]journal.Record, error) {
	if !q.DueBy.IsZero() {
		q.DueBy = q.DueBy.Add(-time.Microsecond)
	}
	return good.List(ctx, space, q)
}

func spacesLate(ctx context.Context, good journal.Backend, q journal.SpacesQuery) ([]string, error) {
	if !q.DueBy.IsZero() {
		q.DueBy = q.DueBy.Add(-time.Microsecond)
	}
	return good.Spaces(ctx, q)
}

func sortHeads(ctx context.Context, good journal.Backend, spaces []string) ([]journal.Head, error) {
	return good.Heads(ctx, slices.Sorted(slices.Values(spaces))...)
}

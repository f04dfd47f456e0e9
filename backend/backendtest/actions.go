package backendtest

import (
	"errors"

	"github.com/thole-dev/thole/journal"
)

// commit commits a batch, which must not fail as a whole.
func (e *env) commit(batch ...journal.Commit) []journal.Result {
	e.Helper()
	results, err := e.b.Commit(e.ctx, batch)
	e.need(err == nil, "commit: got error %v, want nil", err)
	e.need(len(results) == len(batch), "commit: got %d results, want %d", len(results), len(batch))
	return results
}

// must makes a commit of the parts, which must succeed.
func (e *env) must(parts ...any) journal.Result {
	e.Helper()
	return e.mustCommit(commitOf(parts...))
}

func (e *env) mustCommit(c journal.Commit) journal.Result {
	e.Helper()
	r := e.commit(c)[0]
	e.need(r.Conflict == nil && r.Err == nil, "commit: got %v, %v; want success", r.Conflict, r.Err)
	return r
}

// conflict makes a commit of the parts, which must fail with a conflict.
func (e *env) conflict(parts ...any) *journal.ConflictError {
	e.Helper()
	r := e.commit(commitOf(parts...))[0]
	e.need(r.Conflict != nil, "commit: got success at %v, want a conflict", r.Last)
	e.ok(errors.Is(r.Conflict, journal.ErrConflict), "conflict: got %v, want it to be ErrConflict", r.Conflict)
	e.ok(r.First.IsZero() && r.Last.IsZero(), "conflict: got positions %v, %v, want none", r.First, r.Last)
	return r.Conflict
}

func (e *env) get(space string, keys ...string) []journal.Record {
	e.Helper()
	records, err := e.b.Get(e.ctx, space, keys...)
	e.need(err == nil, "get: got error %v, want nil", err)
	e.need(len(records) == len(keys), "get: got %d records for %d keys", len(records), len(keys))
	return records
}

// list returns one page.
func (e *env) list(space string, q journal.ListQuery) []journal.Record {
	e.Helper()
	records, err := e.b.List(e.ctx, space, q)
	e.need(err == nil, "list %+v: got error %v, want nil", q, err)
	e.need(len(records) <= journal.PageLimit(q.Limit), "list %+v: got %d records", q, len(records))
	return records
}

// listAll pages through everything that q selects.
func (e *env) listAll(space string, q journal.ListQuery) []journal.Record {
	e.Helper()
	var all []journal.Record
	for {
		page := e.list(space, q)
		all = append(all, page...)
		if len(page) < journal.PageLimit(q.Limit) {
			return all
		}
		last := page[len(page)-1].Key
		e.need(last > q.After, "list %+v: the page ends at %q", q, last)
		q.After = last
	}
}

// readPage returns one page.
func (e *env) readPage(space string, q journal.ReadQuery) journal.Page {
	e.Helper()
	page, err := e.b.Read(e.ctx, space, q)
	e.need(err == nil, "read %+v: got error %v, want nil", q, err)
	e.need(len(page.Events) <= journal.PageLimit(q.Limit), "read %+v: got %d events", q, len(page.Events))
	return page
}

// readAll pages through everything that q selects.
func (e *env) readAll(space string, q journal.ReadQuery) []journal.Event {
	e.Helper()
	var all []journal.Event
	for {
		page := e.readPage(space, q)
		all = append(all, page.Events...)
		if page.Next.IsZero() {
			return all
		}
		if q.Backward {
			e.need(q.Before.IsZero() || page.Next.Compare(q.Before) < 0, "read %+v: Next %v does not go on", q, page.Next)
			q.Before = page.Next
		} else {
			e.need(page.Next.Compare(q.After) > 0, "read %+v: Next %v does not go on", q, page.Next)
			q.After = page.Next
		}
	}
}

func (e *env) head(space string) journal.Head {
	e.Helper()
	return e.heads(space)[0]
}

func (e *env) heads(spaces ...string) []journal.Head {
	e.Helper()
	heads, err := e.b.Heads(e.ctx, spaces...)
	e.need(err == nil, "heads: got error %v, want nil", err)
	e.need(len(heads) == len(spaces), "heads: got %d for %d spaces", len(heads), len(spaces))
	return heads
}

// spaces pages through the names of spaces.
func (e *env) spaces(q journal.SpacesQuery) []string {
	e.Helper()
	var all []string
	for {
		names, err := e.b.Spaces(e.ctx, q)
		e.need(err == nil, "spaces %+v: got error %v, want nil", q, err)
		e.need(len(names) <= journal.PageLimit(q.Limit), "spaces %+v: got %d names", q, len(names))
		all = append(all, names...)
		if len(names) < journal.PageLimit(q.Limit) {
			return all
		}
		last := names[len(names)-1]
		e.need(last > q.After, "spaces %+v: the page ends at %q", q, last)
		q.After = last
	}
}

func (e *env) purge(space string, p journal.Purge) {
	e.Helper()
	err := e.b.Purge(e.ctx, space, p)
	e.need(err == nil, "purge: got error %v, want nil", err)
}

func (e *env) load(space string, c journal.Chunk) {
	e.Helper()
	err := e.b.Load(e.ctx, space, c)
	e.need(err == nil, "load: got error %v, want nil", err)
}

// state is everything that reads show of a space.
type state struct {
	Head    journal.Head
	Events  []journal.Event
	Records []journal.Record
}

func (e *env) state(space string) state {
	e.Helper()
	return state{
		Head:    canonical(e.head(space)).(journal.Head),
		Events:  canonical(e.readAll(space, journal.ReadQuery{})).([]journal.Event),
		Records: canonical(e.listAll(space, journal.ListQuery{})).([]journal.Record),
	}
}

// unchanged runs do and checks that it does not change the space.
func (e *env) unchanged(space string, do func()) {
	e.Helper()
	before := e.state(space)
	do()
	e.equal(space+" must not change", e.state(space), before)
}

// seq returns p moved by n.
func seq(p journal.Position, n int) journal.Position {
	p.Seq = uint64(int64(p.Seq) + int64(n))
	return p
}

func reversed[T any](s []T) []T {
	out := make([]T, 0, len(s))
	for i := len(s) - 1; i >= 0; i-- {
		out = append(out, s[i])
	}
	return out
}

func keysOf(records []journal.Record) []string {
	keys := make([]string, len(records))
	for i, r := range records {
		keys[i] = r.Key
	}
	return keys
}

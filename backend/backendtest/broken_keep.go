package backendtest

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/thole-dev/thole/journal"
)

func brokenKeeping() []broken {
	return []broken{
		{"everything is forgotten on reopen", "reopen/all that was acknowledged is there", forgetful},
		{"commits are acknowledged before they are durable", "reopen/the last commit is there", losesTail},
		{"what was passed is kept without a copy", "border/what was passed may be changed afterwards", wrapped(keepPassed)},
		{"what is given is given again without a copy", "border/what was given may be changed", wrapped(keepGiven)},
		{"a load is visible before it is done", "load/nothing is visible before Done", wrapped(loadAtOnce)},
		{"a load goes over what exists", "load/a space that exists is refused", wrapped(loadOver)},
		{"a load leaves out what it cannot place", "load/positions outside of the head's epochs are refused", wrapped(loadSilently)},
		{"purge leaves the data", "purge/events are redacted in place", wrapped(purgeNothing)},
		{"purge of a missing space succeeds", "purge/a space that does not exist is not found", wrapped(purgeNothing)},
		{"a purge takes more of a stream than it names", "purge/streams up to a position keep what is later", wrapped(purgeWhole)},
		{"a purge takes a position", "purge/takes no position", wrapped(purgeCommits)},
		{"methods work after close", "close/is idempotent and ends every method with ErrClosed", staysOpen},
	}
}

func forgetful(_ testing.TB, good Harness, open Opener) Harness {
	return Harness{Backend: good.Backend, Reopen: func(t testing.TB) journal.Backend {
		good.Backend.Close()
		return open(t).Backend
	}}
}

// losesTail reopens a store as it was before the last batch.
func losesTail(t testing.TB, good Harness, open Opener) Harness {
	b := &tailLoser{Backend: good.Backend}
	return Harness{Backend: b, Reopen: func(t testing.TB) journal.Backend {
		b.Close()
		reopened := open(t).Backend
		for _, chunk := range b.synced {
			if err := reopened.Load(t.Context(), chunk.Head.Space, chunk); err != nil {
				t.Errorf("restore: %v", err)
			}
		}
		b = &tailLoser{Backend: reopened}
		return b
	}}
}

type tailLoser struct {
	journal.Backend
	mu     sync.Mutex
	synced []journal.Chunk // the state before the last batch
}

func (b *tailLoser) Commit(ctx context.Context, batch []journal.Commit) ([]journal.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	synced, err := snapshot(ctx, b.Backend)
	if err != nil {
		return nil, err
	}
	b.synced = synced
	return b.Backend.Commit(ctx, batch)
}

// snapshot reads every space. It reads one page of each, which suffices here.
func snapshot(ctx context.Context, b journal.Backend) ([]journal.Chunk, error) {
	names, err := b.Spaces(ctx, journal.SpacesQuery{})
	if err != nil {
		return nil, err
	}
	var chunks []journal.Chunk
	for _, name := range names {
		heads, err := b.Heads(ctx, name)
		if err != nil {
			return nil, err
		}
		page, err := b.Read(ctx, name, journal.ReadQuery{})
		if err != nil {
			return nil, err
		}
		records, err := b.List(ctx, name, journal.ListQuery{})
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, journal.Chunk{Head: heads[0], Events: page.Events, Records: records, Done: true})
	}
	return chunks, nil
}

// keepPassed answers reads with the caller's slices from the commit.
func keepPassed(good journal.Backend) journal.Backend {
	kept := map[journal.Position][]byte{}
	b := answering(func(_ context.Context, _ journal.Backend, batch []journal.Commit, results []journal.Result) error {
		for i, c := range batch {
			for j, ev := range c.Events {
				kept[seq(results[i].First, j)] = ev.Data
			}
		}
		return nil
	})(good)
	return reading{Backend: b, read: func(ctx context.Context, good journal.Backend, space string, q journal.ReadQuery) (journal.Page, error) {
		page, err := good.Read(ctx, space, q)
		for i, ev := range page.Events {
			if data, ok := kept[ev.Position]; ok {
				page.Events[i].Data = data
			}
		}
		return page, err
	}}
}

// keepGiven answers every Get of a version with the same slice.
func keepGiven(good journal.Backend) journal.Backend {
	type id struct {
		key string
		at  journal.Position
	}
	given := map[id][]byte{}
	return reading{Backend: good, get: func(ctx context.Context, good journal.Backend, space string, keys []string) ([]journal.Record, error) {
		records, err := good.Get(ctx, space, keys...)
		for i, r := range records {
			if _, ok := given[id{r.Key, r.Version}]; !ok {
				given[id{r.Key, r.Version}] = r.Value
			}
			records[i].Value = given[id{r.Key, r.Version}]
		}
		return records, err
	}}
}

// administering is a good backend with another Load or Purge.
type administering struct {
	journal.Backend
	load  func(ctx context.Context, space string, c journal.Chunk) error
	purge func(ctx context.Context, space string, p journal.Purge) error
}

func (b administering) Load(ctx context.Context, space string, c journal.Chunk) error {
	if b.load == nil {
		return b.Backend.Load(ctx, space, c)
	}
	return b.load(ctx, space, c)
}

func (b administering) Purge(ctx context.Context, space string, p journal.Purge) error {
	if b.purge == nil {
		return b.Backend.Purge(ctx, space, p)
	}
	return b.purge(ctx, space, p)
}

// loadAtOnce makes every chunk visible at once.
func loadAtOnce(good journal.Backend) journal.Backend {
	var all journal.Chunk
	return administering{Backend: good, load: func(ctx context.Context, space string, c journal.Chunk) error {
		if all.Head.Space != "" {
			if err := good.Purge(ctx, space, journal.Purge{All: true}); err != nil {
				return err
			}
		}
		all = journal.Chunk{Head: c.Head, Events: slices.Concat(all.Events, c.Events), Records: slices.Concat(all.Records, c.Records), Done: true}
		return good.Load(ctx, space, all)
	}}
}

func loadOver(good journal.Backend) journal.Backend {
	return administering{Backend: good, load: func(ctx context.Context, space string, c journal.Chunk) error {
		_ = good.Purge(ctx, space, journal.Purge{All: true}) // ErrNotFound is fine
		return good.Load(ctx, space, c)
	}}
}

func loadSilently(good journal.Backend) journal.Backend {
	return administering{Backend: good, load: func(ctx context.Context, space string, c journal.Chunk) error {
		if c.Validate() != nil {
			return nil
		}
		return good.Load(ctx, space, c)
	}}
}

func purgeNothing(good journal.Backend) journal.Backend {
	return administering{Backend: good, purge: func(context.Context, string, journal.Purge) error { return nil }}
}

func purgeWhole(good journal.Backend) journal.Backend {
	return administering{Backend: good, purge: func(ctx context.Context, space string, p journal.Purge) error {
		p.UpTo = journal.Position{}
		return good.Purge(ctx, space, p)
	}}
}

func purgeCommits(good journal.Backend) journal.Backend {
	return administering{Backend: good, purge: func(ctx context.Context, space string, p journal.Purge) error {
		if err := good.Purge(ctx, space, p); err != nil {
			return err
		}
		_, err := good.Commit(ctx, []journal.Commit{{Space: space, Now: now, Writes: []journal.Write{{Key: "purged", Value: []byte(`1`)}}}})
		return err
	}}
}

// staysOpen ignores Close until the test ends.
func staysOpen(t testing.TB, good Harness, _ Opener) Harness {
	t.Cleanup(func() { good.Backend.Close() })
	return Harness{Backend: openForever{good.Backend}}
}

type openForever struct{ journal.Backend }

func (openForever) Close() error { return nil }

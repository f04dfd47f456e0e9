package thole

import (
	"context"
	"errors"
	"fmt"

	"github.com/thole-dev/thole/internal/cache"
)

// Projection keeps in memory what a concept made of a stream's events, such as the
// newest turns of a thread, and rolls it forward by the events since, so that loading
// it again costs no decoding. The zero Projection is not usable; a copy is the same
// Projection. All Projections of a Store share Options.ProjectionBytes.
//
// A kept value is never taken on trust: it counts only for the version that the
// caller read from the store just now, and if nothing was purged since.
type Projection[S any] struct {
	Name string // unique in the program, such as "thread.tail"
	// Apply returns the value after e. It must leave s as it is: others read it.
	Apply func(s S, e Event) (S, error)
	// Size returns about how many bytes s takes in memory.
	Size func(s S) int
}

// maxRoll is how many events are worth applying one by one.
const maxRoll = 256

// At returns the value of a stream at a version: the position of its newest
// event, or of the commit that wrote the record at its head, as the caller read
// it. What is kept of an earlier version is rolled forward by the stream's
// events up to at. Otherwise load must return the value as of at, from events
// not after it. The value is shared and must not be changed.
//
// Errors: load's, Apply's, those of [Space.Read].
func (p Projection[S]) At(ctx context.Context, sp *Space, stream string, at Position, load func(ctx context.Context) (S, error)) (S, error) {
	key := cache.StreamKey{Space: sp.name, Projection: p.Name, Stream: stream}
	erased, err := sp.erased(ctx)
	if err != nil {
		var none S
		return none, err
	}
	kept, era, ok := sp.store.projections.Get(key)
	if ok && kept.Erased == erased {
		if kept.At == at {
			return kept.Value.(S), nil
		}
		if kept.At.Compare(at) < 0 {
			s, rolled, err := p.roll(ctx, sp, stream, kept, at)
			if err != nil {
				return s, err
			}
			if rolled {
				sp.store.projections.Put(key, cache.Projected{At: at, Erased: erased, Value: s, Size: p.Size(s)}, era)
				return s, nil
			}
		}
	}
	s, err := load(ctx)
	if err == nil {
		sp.store.projections.Put(key, cache.Projected{At: at, Erased: erased, Value: s, Size: p.Size(s)}, era)
	}
	return s, err
}

// roll applies the events between what is kept and at. Too many of them, or a
// past that is gone, is not rolled.
func (p Projection[S]) roll(ctx context.Context, sp *Space, stream string, kept cache.Projected, at Position) (S, bool, error) {
	s := kept.Value.(S)
	end := at
	end.Seq++ // Before excludes
	page, err := sp.Read(ctx, ReadQuery{Stream: stream, After: kept.At, Before: end, Limit: maxRoll})
	if errors.Is(err, ErrTrimmed) || err == nil && !page.Next.IsZero() {
		return s, false, nil
	}
	if err != nil {
		return s, false, err
	}
	for _, e := range page.Events {
		if s, err = p.Apply(s, e); err != nil {
			return s, false, fmt.Errorf("%s of %s: %s at %s: %w", p.Name, stream, e.Type, e.Position, err)
		}
	}
	return s, true, nil
}

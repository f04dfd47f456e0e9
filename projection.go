package thole

import (
	"context"
	"errors"
	"fmt"

	"github.com/thole-dev/thole/internal/cache"
)

// Projection caches a value that a concept computes from a stream's events, such as the
// newest turns of a thread, and brings it up to date by applying the events since, so
// that events are not read and decoded again. The zero Projection is not usable; a copy
// is the same Projection. All Projections of a Store share Options.ProjectionBytes.
//
// A cached value is used only for the version that the caller has just read from the
// store, and only if nothing in the space was purged since.
type Projection[S any] struct {
	Name string // unique in the program, such as "thread.tail"
	// Apply returns the value after e. It must not change s, which others read.
	Apply func(s S, e Event) (S, error)
	// Size returns the approximate number of bytes that s takes in memory.
	Size func(s S) int
}

// maxRoll is the largest number of events that a cached value is brought forward by.
const maxRoll = 256

// At returns the value of stream at the version at, which the caller has just read: the
// position of the stream's newest event, or of the commit that wrote the record that
// describes the stream. If an earlier value is cached, At applies the events up to at.
// Otherwise it calls load, which must return the value at that version, from events not
// after it. The value is shared and must not be changed.
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

// roll applies the events after the cached value up to at. It returns false if there
// are too many or some are no longer kept.
func (p Projection[S]) roll(ctx context.Context, sp *Space, stream string, kept cache.Projected, at Position) (S, bool, error) {
	s := kept.Value.(S)
	end := at
	end.Seq++ // Before is exclusive
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

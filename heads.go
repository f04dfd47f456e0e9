package thole

import (
	"context"
	"errors"

	"github.com/thole-dev/thole/journal"
)

// Heads returns the Head of each named space, in the order of names. If a space does
// not exist, its Last is zero. With an [UnreachableError] the result is valid for the
// spaces that the error does not name; the others are damaged, or in a store that does
// not answer, and have the zero Head. After any other error there is no result.
func (s *Store) Heads(ctx context.Context, names ...string) ([]Head, error) {
	heads, err := s.backend.Heads(ctx, names...)
	switch {
	case !errors.Is(err, ErrCorrupt):
		return heads, err
	case len(names) == 1:
		return []Head{{}}, &UnreachableError{Stores: []journal.UnreachableStore{{Spaces: names, Err: err}}}
	}
	heads, without := nil, &UnreachableError{}
	for _, half := range [][]string{names[:len(names)/2], names[len(names)/2:]} {
		some, err := s.Heads(ctx, half...)
		var these *UnreachableError
		if errors.As(err, &these) {
			without.Stores = append(without.Stores, these.Stores...)
		} else if err != nil {
			return nil, err
		}
		heads = append(heads, some...)
	}
	return heads, without
}

package thole

import (
	"context"
	"errors"

	"github.com/thole-dev/thole/journal"
)

// Heads returns where the journals of spaces begin and end, in the order of names; a
// space that does not exist has a zero Last. With an [UnreachableError] the answer is
// about those spaces that it does not name: the others are damaged, or live in a store
// that does not answer, and have a zero Head. Other errors are about all.
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

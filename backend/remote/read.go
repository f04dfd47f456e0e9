package remote

import (
	"context"
	"errors"
	"fmt"

	"github.com/thole-dev/thole"
)

// Get implements [thole.Backend].
func (b *Backend) Get(ctx context.Context, space string, keys ...string) ([]thole.Record, error) {
	a, err := b.ask(ctx, "/get", &Request{Space: space, Names: keys})
	if err != nil {
		return nil, err
	}
	return a.Records, count("get", len(a.Records), len(keys))
}

// List implements [thole.Backend].
func (b *Backend) List(ctx context.Context, space string, q thole.ListQuery) ([]thole.Record, error) {
	a, err := b.ask(ctx, "/list", &Request{Space: space, List: q})
	if err != nil {
		return nil, err
	}
	return a.Records, nil
}

// Read implements [thole.Backend].
func (b *Backend) Read(ctx context.Context, space string, q thole.ReadQuery) (thole.Page, error) {
	a, err := b.ask(ctx, "/read", &Request{Space: space, Read: q})
	if err != nil {
		return thole.Page{}, trimmed(err, space, q.After)
	}
	return a.Page, nil
}

// Heads implements [thole.Backend].
func (b *Backend) Heads(ctx context.Context, spaces ...string) ([]thole.Head, error) {
	a, err := b.ask(ctx, "/heads", &Request{Names: spaces})
	if err != nil {
		return nil, err
	}
	return a.Heads, count("heads", len(a.Heads), len(spaces))
}

// Spaces implements [thole.Backend].
func (b *Backend) Spaces(ctx context.Context, q thole.SpacesQuery) ([]string, error) {
	a, err := b.ask(ctx, "/spaces", &Request{Spaces: q})
	if err != nil {
		return nil, err
	}
	return a.Names, nil
}

// trimmed gives a cursor's error its data back.
func trimmed(err error, space string, cursor thole.Position) error {
	var no *refusal
	if !errors.As(err, &no) || no.sentinel != thole.ErrTrimmed {
		return err
	}
	return &thole.TrimmedError{Space: space, Cursor: cursor, Oldest: no.Oldest, Last: no.Last, Reason: no.Reason}
}

func count(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("%w: %s: the server answered %d names with %d values", thole.ErrCorrupt, what, want, got)
	}
	return nil
}

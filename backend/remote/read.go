package remote

import (
	"context"
	"errors"
	"fmt"

	"github.com/thole-dev/thole"
)

// Get implements [thole.Backend]. More than thole.MaxPage records, and more than
// 16 MiB of them, come in several answers, each of one state of the space.
func (b *Backend) Get(ctx context.Context, space string, keys ...string) ([]thole.Record, error) {
	all, limit := make([]thole.Record, 0, len(keys)), thole.MaxPage
	for {
		part := keys[len(all):min(len(keys), len(all)+limit)]
		a, err := b.ask(ctx, "/get", &Request{Space: space, Names: part})
		if errors.Is(err, thole.ErrTooLarge) && len(part) > 1 {
			limit = (len(part) + 1) / 2
			continue
		}
		if err == nil {
			err = count("get", len(a.Records), len(part))
		}
		if err != nil {
			return nil, err
		}
		if all = append(all, a.Records...); len(all) == len(keys) {
			return all, nil
		}
	}
}

// List implements [thole.Backend]. More than 16 MiB of records come in several
// answers, as with Get.
func (b *Backend) List(ctx context.Context, space string, q thole.ListQuery) ([]thole.Record, error) {
	var all []thole.Record
	want := thole.PageLimit(q.Limit)
	for q.Limit = want; ; {
		a, err := b.ask(ctx, "/list", &Request{Space: space, List: q})
		if errors.Is(err, thole.ErrTooLarge) && q.Limit > 1 {
			q.Limit = (q.Limit + 1) / 2
			continue
		}
		if err != nil {
			return nil, err
		}
		if all = append(all, a.Records...); len(a.Records) < q.Limit || len(all) >= want {
			return all, nil
		}
		q.After, q.Limit = all[len(all)-1].Key, min(q.Limit, want-len(all))
	}
}

// Read implements [thole.Backend].
func (b *Backend) Read(ctx context.Context, space string, q thole.ReadQuery) (thole.Page, error) {
	a, err := b.ask(ctx, "/read", &Request{Space: space, Read: q})
	if err != nil {
		return thole.Page{}, trimmed(err, space, q.After)
	}
	return a.Page, nil
}

// Heads implements [thole.Backend]. Those of more than thole.MaxPage spaces come
// in several answers.
func (b *Backend) Heads(ctx context.Context, spaces ...string) ([]thole.Head, error) {
	all := make([]thole.Head, 0, len(spaces))
	for {
		part := spaces[len(all):min(len(spaces), len(all)+thole.MaxPage)]
		a, err := b.ask(ctx, "/heads", &Request{Names: part})
		if err == nil {
			err = count("heads", len(a.Heads), len(part))
		}
		if err != nil {
			return nil, err
		}
		if all = append(all, a.Heads...); len(all) == len(spaces) {
			return all, nil
		}
	}
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

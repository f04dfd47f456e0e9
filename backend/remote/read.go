package remote

import (
	"context"
	"errors"
	"fmt"

	"github.com/thole-dev/thole/journal"
)

// Get implements [journal.Backend]. More than journal.MaxPage records or 16 MiB take
// several requests, each of which reads one state of the space.
func (b *Backend) Get(ctx context.Context, space string, keys ...string) ([]journal.Record, error) {
	all, limit := make([]journal.Record, 0, len(keys)), journal.MaxPage
	for {
		part := keys[len(all):min(len(keys), len(all)+limit)]
		a, err := b.ask(ctx, "/get", &Request{Space: space, Names: part})
		if errors.Is(err, journal.ErrTooLarge) && len(part) > 1 {
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

// List implements [journal.Backend]. More than 16 MiB of records take several
// requests, as with Get.
func (b *Backend) List(ctx context.Context, space string, q journal.ListQuery) ([]journal.Record, error) {
	var all []journal.Record
	want := journal.PageLimit(q.Limit)
	for q.Limit = want; ; {
		a, err := b.ask(ctx, "/list", &Request{Space: space, List: q})
		if errors.Is(err, journal.ErrTooLarge) && q.Limit > 1 {
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

// Read implements [journal.Backend].
func (b *Backend) Read(ctx context.Context, space string, q journal.ReadQuery) (journal.Page, error) {
	a, err := b.ask(ctx, "/read", &Request{Space: space, Read: q})
	if err != nil {
		return journal.Page{}, trimmed(err, space, q.After)
	}
	return a.Page, nil
}

// Heads implements [journal.Backend]. More than journal.MaxPage spaces take several
// requests.
func (b *Backend) Heads(ctx context.Context, spaces ...string) ([]journal.Head, error) {
	all := make([]journal.Head, 0, len(spaces))
	for {
		part := spaces[len(all):min(len(spaces), len(all)+journal.MaxPage)]
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

// Spaces implements [journal.Backend].
func (b *Backend) Spaces(ctx context.Context, q journal.SpacesQuery) ([]string, error) {
	a, err := b.ask(ctx, "/spaces", &Request{Spaces: q})
	if err != nil {
		return nil, err
	}
	return a.Names, nil
}

// trimmed turns a refusal with ErrTrimmed into a [journal.TrimmedError], and returns
// any other error unchanged.
func trimmed(err error, space string, cursor journal.Position) error {
	var no *refusal
	if !errors.As(err, &no) || no.sentinel != journal.ErrTrimmed {
		return err
	}
	return &journal.TrimmedError{Space: space, Cursor: cursor, Oldest: no.Oldest, Last: no.Last, Reason: no.Reason}
}

func count(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("%w: %s: the server answered %d names with %d values", journal.ErrCorrupt, what, want, got)
	}
	return nil
}

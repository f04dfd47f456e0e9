package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/thole-dev/thole/journal"
)

// Load implements [journal.Backend].
func (b *Backend) Load(ctx context.Context, space string, c journal.Chunk) error {
	return b.change(ctx, "/load", &Request{Space: space, Chunk: c})
}

// Purge implements [journal.Backend]. With UpTo it returns errors.ErrUnsupported if the
// server has an earlier version, which would also remove later events.
func (b *Backend) Purge(ctx context.Context, space string, p journal.Purge) error {
	if !p.UpTo.IsZero() { // ask each time, since the server may have been replaced
		r, err := b.repeat(ctx, http.MethodGet, "", nil)
		if err != nil {
			return err
		}
		h, err := readHello(r)
		if err != nil {
			return err
		}
		if !h.UpTo {
			return fmt.Errorf("%w: the server (%s) cannot purge up to a position: upgrade it", errors.ErrUnsupported, cmp.Or(h.Version, "of an earlier version"))
		}
	}
	return trimmed(b.change(ctx, "/purge", &Request{Space: space, Purge: p}), space, p.Before)
}

// change sends a change that must not be applied twice.
func (b *Backend) change(ctx context.Context, path string, req *Request) error {
	ctx, leave, err := b.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	body, err := req.Encode()
	if err != nil {
		return err
	}
	_, err = b.once(ctx, path, body, false)
	return err
}

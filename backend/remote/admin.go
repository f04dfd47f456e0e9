package remote

import (
	"context"

	"github.com/thole-dev/thole"
)

// Load implements [thole.Backend].
func (b *Backend) Load(ctx context.Context, space string, c thole.Chunk) error {
	return b.change(ctx, "/load", &Request{Space: space, Chunk: c})
}

// Purge implements [thole.Backend].
func (b *Backend) Purge(ctx context.Context, space string, p thole.Purge) error {
	return trimmed(b.change(ctx, "/purge", &Request{Space: space, Purge: p}), space, p.Before)
}

// change carries out what a second time would fail or do harm.
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

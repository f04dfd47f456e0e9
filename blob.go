package thole

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// A blob is content too large for an event or a record, stored under its hash:
//
//	blob/<sha256>   {"size": bytes, "chunks": [sha256, …]}   written last
//	chunk/<sha256>  base64 of chunkBytes of content (the last: the rest)
//	upload/<id>     the chunks of a blob that is on its way: see upload
//
// Equal chunks are stored once per space. Only heads and uploads refer to chunks, and
// no record is overwritten with different content. So it is harmless to put a blob
// again, concurrently, or after a crash.
const (
	chunkBytes     = 256 << 10 // base64 of it fits a record
	chunksInCommit = 8         // fit a commit, and bound the memory of a put

	// DefaultBlobBytes is the default limit of PutBlob.
	DefaultBlobBytes = 64 << 20
	// MaxBlobBytes is the largest size of a blob: as many chunks as one head can list.
	MaxBlobBytes = (MaxValueBytes - 100) / (2*sha256.Size + 3) * chunkBytes
)

// Blob names immutable content.
type Blob struct {
	Hash string `json:"hash"` // SHA-256, 64 lower-case hex digits
	Size int64  `json:"size"` // bytes
}

// BlobOptions are options of [Space.PutBlob].
type BlobOptions struct {
	MaxBytes int64 // larger content is ErrTooLarge; 0: DefaultBlobBytes, at most MaxBlobBytes
}

type blobHead struct {
	Size   int64    `json:"size"`
	Chunks []string `json:"chunks"`
}

// PutBlob stores the content that r yields and returns the Blob. It does not write
// content again that the space already has, emits no event and keeps at most 2 MiB in
// memory. It is idempotent by itself and ignores an idempotency key. Content of up to 2
// MiB is stored in one commit, or in none if the space has the blob. A larger blob
// exists only when all of it is stored; if PutBlob fails, its chunks are deleted at
// once, or by a sweep if the process dies. Concurrent puts that share chunks do not
// affect each other. Errors: r's, ErrTooLarge, ErrConflict if r yields nothing for an
// hour, and those of [Space.Commit].
func (sp *Space) PutBlob(ctx context.Context, r io.Reader, opts *BlobOptions) (Blob, error) {
	p := blobPut{ctx: WithoutIdempotencyKey(ctx), sp: sp, whole: sha256.New()}
	b, err := p.put(r, opts)
	if err != nil {
		p.drop()
		return Blob{}, fmt.Errorf("put blob: %w", err)
	}
	return b, nil
}

func (p *blobPut) put(r io.Reader, opts *BlobOptions) (Blob, error) {
	limit := int64(DefaultBlobBytes)
	if opts != nil && opts.MaxBytes > 0 {
		limit = min(opts.MaxBytes, MaxBlobBytes)
	}
	buf := make([]byte, chunkBytes)
	for {
		n, err := io.ReadFull(r, buf)
		if p.head.Size += int64(n); p.head.Size > limit {
			return Blob{}, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
		}
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return Blob{}, err
		}
		if n > 0 {
			if err := p.add(buf[:n]); err != nil {
				return Blob{}, err
			}
		}
		if last {
			return p.finish()
		}
	}
}

// HasBlob reports whether the space has the blob with the given hash, and returns it. A
// malformed hash is ErrInvalid.
func (sp *Space) HasBlob(ctx context.Context, hash string) (Blob, bool, error) {
	head, err := sp.blobHead(ctx, hash)
	if errors.Is(err, ErrNotFound) {
		return Blob{}, false, nil
	}
	return Blob{Hash: hash, Size: head.Size}, err == nil, err
}

func (sp *Space) blobHead(ctx context.Context, hash string) (blobHead, error) {
	if raw, err := hex.DecodeString(hash); err != nil || len(raw) != sha256.Size || hex.EncodeToString(raw) != hash {
		return blobHead{}, invalidf("%.80q is not the SHA-256 of a blob", hash)
	}
	rec, err := sp.Get(ctx, "blob/"+hash)
	if err != nil {
		return blobHead{}, err
	}
	if !rec.Exists() {
		return blobHead{}, fmt.Errorf("blob %s in %s: %w", hash, sp.name, ErrNotFound)
	}
	var head blobHead
	if err := rec.As(&head); err != nil {
		return blobHead{}, err
	}
	if chunks := (head.Size + chunkBytes - 1) / chunkBytes; head.Size < 0 || int64(len(head.Chunks)) != chunks {
		return blobHead{}, fmt.Errorf("%w: blob %s lists %d chunks for %d bytes", ErrCorrupt, hash, len(head.Chunks), head.Size)
	}
	return head, nil
}

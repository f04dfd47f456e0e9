package thole

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
)

// BlobReader reads a blob, a chunk at a time. It implements io.ReadSeekCloser and must
// be used by one goroutine at a time.
type BlobReader struct {
	ctx   context.Context // of OpenBlob: io.Reader takes none
	sp    *Space
	blob  Blob
	head  blobHead
	pos   int64
	chunk []byte // the chunk with index at
	at    int

	whole  hash.Hash // of the first hashed bytes, as long as they were read in order
	hashed int64
}

// OpenBlob returns a reader of the blob with the given hash, which works until ctx
// ends. The reader verifies the hash of each chunk before it returns any of it, and
// that of the whole blob before it returns io.EOF, unless Seek skipped a part. Errors:
// ErrNotFound, ErrInvalid for a malformed hash; from Read ErrCorrupt, and ErrNotFound if
// the blob was deleted meanwhile.
func (sp *Space) OpenBlob(ctx context.Context, hash string) (*BlobReader, error) {
	head, err := sp.blobHead(ctx, hash)
	if err != nil {
		return nil, err
	}
	return &BlobReader{ctx: ctx, sp: sp, blob: Blob{Hash: hash, Size: head.Size}, head: head, at: -1, whole: sha256.New()}, nil
}

// Blob returns the blob that r reads.
func (r *BlobReader) Blob() Blob { return r.blob }

// Read implements io.Reader.
func (r *BlobReader) Read(p []byte) (int, error) {
	if r.pos >= r.blob.Size {
		return 0, r.end()
	}
	if i := int(r.pos / chunkBytes); i != r.at {
		if err := r.load(i); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.chunk[r.pos%chunkBytes:])
	if r.pos == r.hashed {
		r.whole.Write(p[:n])
		r.hashed += int64(n)
	}
	r.pos += int64(n)
	return n, nil
}

// end returns io.EOF, or ErrCorrupt if the whole blob was read in order and its hash is
// wrong.
func (r *BlobReader) end() error {
	if r.hashed == r.blob.Size {
		if got := hex.EncodeToString(r.whole.Sum(nil)); got != r.blob.Hash {
			return fmt.Errorf("%w: blob %s holds %s", ErrCorrupt, r.blob.Hash, got)
		}
	}
	return io.EOF
}

func (r *BlobReader) load(i int) error {
	name := r.head.Chunks[i]
	rec, err := r.sp.Get(r.ctx, "chunk/"+name)
	if err == nil && !rec.Exists() { // perhaps the space was deleted, or the blob dropped
		_, err = r.sp.blobHead(r.ctx, r.blob.Hash)
	}
	if err != nil {
		return err
	}
	var chunk []byte
	if err := json.Unmarshal(rec.Value, &chunk); err != nil {
		return fmt.Errorf("%w: chunk %s of blob %s: %v", ErrCorrupt, name, r.blob.Hash, err)
	}
	want := min(chunkBytes, r.blob.Size-int64(i)*chunkBytes)
	if sum := sha256.Sum256(chunk); hex.EncodeToString(sum[:]) != name || int64(len(chunk)) != want {
		return fmt.Errorf("%w: chunk %s of blob %s holds something else", ErrCorrupt, name, r.blob.Hash)
	}
	r.chunk, r.at = chunk, i
	return nil
}

// Seek implements io.Seeker.
func (r *BlobReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.pos
	case io.SeekEnd:
		offset += r.blob.Size
	case io.SeekStart:
	default:
		return 0, invalidf("whence %d", whence)
	}
	if offset < 0 {
		return 0, invalidf("seek to %d", offset)
	}
	r.pos = offset
	return offset, nil
}

// Close implements io.Closer. There is nothing to release.
func (r *BlobReader) Close() error { return nil }

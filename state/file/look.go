package file

import (
	"context"
	"io"
)

// Look is Found for a file that is known; of one that is not it says nothing.
func (f *Files) Look(ctx context.Context, path, hash string) error {
	known, err := f.Get(ctx, path)
	if err == nil && known.Known && known.Hash != hash {
		_, err = f.Found(ctx, path, hash)
	}
	return err
}

// Content returns the content that is on record for a file, of at most limit bytes,
// and false if there is no such record or the content was not kept.
func (f *Files) Content(ctx context.Context, path string, limit int64) (content []byte, hash string, ok bool) {
	known, err := f.Get(ctx, path)
	if err != nil || known.Hash == "" {
		return nil, "", false
	}
	blob, err := f.sp.OpenBlob(ctx, known.Hash)
	if err != nil {
		return nil, "", false
	}
	content, err = io.ReadAll(io.LimitReader(blob, limit))
	return content, known.Hash, err == nil && Hash(content) == known.Hash
}

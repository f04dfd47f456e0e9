package file

import (
	"context"
	"io"
)

// Look is Found for a known file. It does nothing for an unknown one.
func (f *Files) Look(ctx context.Context, path, hash string) error {
	known, err := f.Get(ctx, path)
	if err == nil && known.Known && known.Hash != hash {
		_, err = f.Found(ctx, path, hash)
	}
	return err
}

// Content returns the file's recorded content and its hash. It returns false if the file
// is unknown or deleted, if its content was not kept or is longer than limit bytes, or
// after an error.
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

package rest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

func blobOperations() []operation {
	const one = "/v1/spaces/{space}/blobs/{sha256}"
	return []operation{
		{id: "putBlob", method: "PUT", path: one, access: write,
			summary: "Store content of up to 64 MiB under its SHA-256 in hex", does: does(putBlob)},
		{id: "getBlob", method: "GET", path: one, access: read, status: 200, gives: bytesType,
			summary: "Read content, or a range of it", does: does(getBlob), failures: []failure{
				{journal.ErrNotFound, "there is no such content"},
				{&statusError{http.StatusRequestedRangeNotSatisfiable, journal.ErrInvalid}, "the content has no such range"}}},
	}
}

type ofBlob struct {
	Hash string `path:"sha256" doc:"the SHA-256 of the content, in hex" example:"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"`
}

// bytesType is the media type of opaque bytes.
const bytesType = "application/octet-stream"

// sent is the result of a handler that has written its answer itself.
type sent struct{}

type putBlobIn struct {
	ofBlob
	Body io.Reader `body:"application/octet-stream"`
}

func putBlob(c *call, in putBlobIn) (thole.Blob, error) {
	if _, _, err := c.space.HasBlob(c.ctx, in.Hash); errors.Is(err, thole.ErrInvalid) {
		return thole.Blob{}, err // a malformed hash
	}
	body := &blobBody{r: in.Body, rc: http.NewResponseController(c.w), sum: sha256.New(), want: in.Hash}
	defer body.rc.SetReadDeadline(time.Time{})
	return c.space.PutBlob(c.ctx, body, nil)
}

// blobBody reads the content of a blob. At the end it returns an error if the content
// does not have the hash that the request names, so that nothing is stored.
type blobBody struct {
	r    io.Reader
	rc   *http.ResponseController
	sum  hash.Hash
	want string
}

func (b *blobBody) Read(p []byte) (int, error) {
	b.rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // for each part, since the whole may take long
	n, err := b.r.Read(p)
	b.sum.Write(p[:n])
	switch {
	case err == nil:
	case !errors.Is(err, io.EOF):
		err = invalid("body", "could not be read: %v", err)
	case hex.EncodeToString(b.sum.Sum(nil)) != b.want:
		err = invalid("sha256", "is not that of the body")
	}
	return n, err
}

type getBlobIn struct {
	ofBlob
	IfNoneMatch string `header:"If-None-Match" doc:"an ETag: 304 if it still holds"`
	Range       string `header:"Range" doc:"the requested bytes" example:"bytes=0-99"`
}

func getBlob(c *call, in getBlobIn) (sent, error) {
	r, err := c.space.OpenBlob(c.ctx, in.Hash)
	if err != nil {
		return sent{}, err
	}
	defer r.Close()
	h := c.w.Header()
	h.Set("Content-Type", bytesType)
	h.Set("Content-Disposition", "attachment") // no browser shows it as a page of this origin
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	h.Set("ETag", etag(r.Blob().Hash))
	w := &patient{ResponseWriter: c.w, stall: c.api.opts.Stall, first: r}
	http.ServeContent(w, c.r, "", time.Time{}, r)
	if !w.refused {
		return sent{}, nil
	}
	h.Del("Content-Disposition")
	if w.err != nil {
		for _, name := range []string{"Accept-Ranges", "Cache-Control", "Content-Length", "Content-Range", "ETag"} {
			h.Del(name)
		}
		return sent{}, w.err
	}
	return sent{}, &statusError{http.StatusRequestedRangeNotSatisfiable, invalid("Range", "%.80q is no range of %d bytes", in.Range, r.Blob().Size)}
}

// patient sets the client a deadline to read each part, not the whole. It suppresses what
// [http.ServeContent] writes for a range that it cannot serve, or if the first part cannot be
// read, since the space was deleted meanwhile, say.
type patient struct {
	http.ResponseWriter
	stall   time.Duration
	first   io.Reader
	err     error // of the first part
	refused bool
}

func (w *patient) WriteHeader(status int) {
	switch status {
	case http.StatusRequestedRangeNotSatisfiable:
		w.refused = true
	case http.StatusOK, http.StatusPartialContent:
		if _, err := w.first.Read(nil); err != nil && err != io.EOF {
			w.err, w.refused = err, true
		}
	}
	if !w.refused {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *patient) Write(b []byte) (int, error) {
	if w.refused {
		return len(b), nil
	}
	http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.stall))
	return w.ResponseWriter.Write(b)
}

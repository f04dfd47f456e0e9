package rest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/shape"
	"github.com/thole-dev/thole/journal"
)

// bodyTimeout bounds how long a client may take to send a body.
const bodyTimeout = 30 * time.Second

// boundBody sets that deadline and wraps r's body, so that a response need not wait
// for the rest of it. It returns nil if r has no body.
func boundBody(w http.ResponseWriter, r *http.Request) *bodyEnd {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // best effort: not every writer has deadlines
	b := &bodyEnd{ReadCloser: r.Body}
	r.Body = b
	return b
}

// drainTimeout bounds how long the server reads the rest of a body after a response
// that did not wait for it.
const drainTimeout = 2 * time.Second

// bodyEnd is a request's body that records whether it was read to its end.
type bodyEnd struct {
	io.ReadCloser
	reached bool
}

func (b *bodyEnd) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.reached = b.reached || err == io.EOF
	return n, err
}

// readBody reads the whole body, at most limit bytes of it.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, &statusError{http.StatusUnsupportedMediaType, invalid("Content-Encoding", "%.40q is not known here; send the body as it is", enc)}
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, fmt.Errorf("%w: the body has more than %d bytes", thole.ErrTooLarge, limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &statusError{http.StatusRequestTimeout, invalid("body", "did not come within %v", bodyTimeout)}
	case err != nil:
		return nil, fmt.Errorf("%w: the body could not be read: %v", thole.ErrInvalid, err)
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{}) // the handler may take longer
	return data, nil
}

// decodeShape decodes a JSON body strictly into v, which points to the shape's type.
// A part that does not match the shape is ErrInvalid; the error names it by its JSON
// pointer.
func decodeShape(data []byte, v any, s *shape.Shape) error {
	if err := sane(data); err != nil {
		return err
	}
	return badPart(s.Decode(data, v))
}

// sane makes the checks that come before data is parsed.
func sane(data []byte) error {
	switch {
	case len(data) == 0:
		return invalid("body", "is empty; JSON is expected")
	case journal.JSONDepth(data) > journal.MaxDepth:
		return invalid("body", "nests deeper than %d levels", journal.MaxDepth)
	}
	return nil
}

// badPart returns err as an error that names the part of the body it is about.
func badPart(err error) error {
	var wrong *shape.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong) && wrong.Pointer != "":
		return invalid(wrong.Pointer, "%s", wrong.Reason)
	}
	return invalid("body", "%v", err)
}

package agent

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/agent/sandbox"
)

// Attachment is an image or a file that came with a prompt.
type Attachment struct {
	Name string `json:"name,omitempty"`
	Type string `json:"type,omitempty"` // media type, such as image/png
	URL  string `json:"url,omitempty"`  // a data URL, an http(s) URL, or the SHA-256 of a blob of the space

	data []byte // the content, once it was read; nil if only the URL is known
}

// maxAttached is the size of the largest attachment that a model is given.
const maxAttached = 5 << 20

// readAttachments reads the content of those that are data URLs or blobs. An
// http(s) URL is handed to the model's service and never asked from here.
func readAttachments(ctx context.Context, sp *thole.Space, list []Attachment) error {
	for i := range list {
		if err := list[i].read(ctx, sp); err != nil {
			return fmt.Errorf("attachment %.80q: %w", list[i].Name, err)
		}
	}
	return nil
}

func (at *Attachment) read(ctx context.Context, sp *thole.Space) error {
	scheme, _, isURL := strings.Cut(at.URL, ":")
	switch {
	case strings.EqualFold(scheme, "data"):
		media, data, ok := dataURL(at.URL)
		if !ok {
			return fmt.Errorf("%w: the data URL is malformed", thole.ErrInvalid)
		}
		at.data = data
		if at.Type == "" || at.Type == "image/*" {
			at.Type = media
		}
	case !isURL:
		blob, err := sp.OpenBlob(ctx, at.URL)
		if err != nil {
			return err
		}
		if size := blob.Blob().Size; size > maxAttached {
			return fmt.Errorf("%w: %d bytes, the limit is %d", thole.ErrTooLarge, size, maxAttached)
		}
		if at.data, err = io.ReadAll(blob); err != nil {
			return err
		}
		if at.Type == "" || at.Type == "image/*" {
			at.Type = http.DetectContentType(at.data)
		}
	}
	return nil
}

// block returns the attachment as a model takes it: images and PDF files as
// such, text as text, anything else by its name.
func (at *Attachment) block() model.Block {
	media, _, err := mime.ParseMediaType(at.Type)
	if err != nil {
		media = at.Type
	}
	switch {
	case at.data == nil && at.image() && strings.HasPrefix(strings.ToLower(at.URL), "http"):
		return model.Block{Type: model.Image, MediaType: media, URL: at.URL}
	case at.data == nil:
		return model.Block{Type: model.Text, Text: "[attached file " + at.Name + ": " + cut(at.URL, maxResult) + "]"}
	case at.image():
		return model.Block{Type: model.Image, MediaType: media, Data: at.data}
	case media == "application/pdf":
		return model.Block{Type: model.File, Name: at.Name, MediaType: media, Data: at.data}
	case !sandbox.Binary(at.data):
		return model.Block{Type: model.Text, Text: "[attached file " + at.Name + "]\n" + cut(string(at.data), maxShown)}
	}
	return model.Block{Type: model.Text, Text: fmt.Sprintf("[attached file %s: %s, %d bytes, which cannot be shown]", at.Name, media, len(at.data))}
}

func (at *Attachment) image() bool { return strings.HasPrefix(at.Type, "image/") }

// dataURL takes a data URL apart (RFC 2397).
func dataURL(s string) (media string, data []byte, ok bool) {
	head, body, ok := strings.Cut(s, ",")
	if !ok {
		return "", nil, false
	}
	_, head, _ = strings.Cut(head, ":")
	media, encoded := strings.CutSuffix(head, ";base64")
	if media == "" {
		media = "text/plain"
	}
	if encoded {
		data, err := base64.StdEncoding.DecodeString(body)
		return media, data, err == nil
	}
	text, err := url.PathUnescape(body)
	return media, []byte(text), err == nil
}

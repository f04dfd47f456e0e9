package model

import (
	"encoding/base64"
	"fmt"
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/thole-dev/thole/internal/clip"
)

// maxText bounds the text of an attached file that is shown as text, in bytes.
const maxText = 100 << 10

// Attached returns a file that came with a prompt as the block that shows it best:
// images and PDF files as such, UTF-8 text as text, anything else by its name. data
// is its content; nil if only its URL is known, which is then handed on if it is
// the http(s) URL of an image.
func Attached(name, mediaType, address string, data []byte) Block {
	media, _, err := mime.ParseMediaType(mediaType)
	if err != nil {
		media = mediaType
	}
	image := strings.HasPrefix(media, "image/")
	switch {
	case data == nil && image && strings.HasPrefix(strings.ToLower(address), "http"):
		return Block{Type: Image, MediaType: media, URL: address}
	case data == nil:
		return Block{Type: Text, Text: "[attached file " + name + ": " + clip.Text(address, 2<<10) + "]"}
	case image:
		return Block{Type: Image, MediaType: media, Data: data}
	case media == "application/pdf":
		return Block{Type: File, Name: name, MediaType: media, Data: data}
	case utf8.Valid(data) && strings.IndexByte(string(data), 0) < 0:
		return Block{Type: Text, Text: "[attached file " + name + "]\n" + clip.Text(string(data), maxText)}
	}
	return Block{Type: Text, Text: fmt.Sprintf("[attached file %s: %s, %d bytes, which cannot be shown]", name, media, len(data))}
}

// ParseDataURL takes a data URL apart (RFC 2397).
func ParseDataURL(s string) (mediaType string, data []byte, ok bool) {
	head, body, ok := strings.Cut(s, ",")
	if !ok {
		return "", nil, false
	}
	_, head, _ = strings.Cut(head, ":")
	mediaType, encoded := strings.CutSuffix(head, ";base64")
	if mediaType == "" {
		mediaType = "text/plain"
	}
	if encoded {
		data, err := base64.StdEncoding.DecodeString(body)
		return mediaType, data, err == nil
	}
	text, err := url.PathUnescape(body)
	return mediaType, []byte(text), err == nil
}

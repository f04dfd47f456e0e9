package sandbox

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCaptureIsValidAtEveryCut(t *testing.T) {
	text := strings.Repeat("aü€😀", 20)
	for size := 1; size < 8; size++ {
		for limit := 1; limit <= len(text)+1; limit++ {
			live := ""
			c := newCapture(limit, func(p []byte) {
				if !utf8.Valid(p) {
					t.Errorf("size %d: live chunk %q", size, p)
				}
				live += string(p)
			})
			c.readFrom(&slowReader{text, size})
			got, cut := c.text()
			if live != text || !utf8.ValidString(got) || (cut == 0) != (got == text) {
				t.Errorf("size %d, limit %d: %q, cut %d, live %q", size, limit, got, cut, live)
			}
		}
	}
}

type slowReader struct {
	text string
	size int
}

func (r *slowReader) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, os.ErrClosed
	}
	n := copy(p[:min(r.size, len(p))], r.text)
	r.text = r.text[n:]
	return n, nil
}

package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"
)

// capture keeps the beginning and the end of an output (errors tend to come
// last) and passes all of it on as it comes, as valid UTF-8.
type capture struct {
	limit      int // of head and of tail
	head, tail []byte
	total      int64
	live       func([]byte)
	partial    []byte // the beginning of a rune whose rest has not come yet
}

func newCapture(limit int, live func([]byte)) *capture {
	if limit <= 0 {
		limit = 64 << 10
	}
	return &capture{limit: (limit + 1) / 2, live: live}
}

// readFrom takes all of r; an error of r is its end.
func (c *capture) readFrom(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		c.write(buf[:n])
		if err != nil {
			c.emit(c.partial)
			c.partial = nil
			return
		}
	}
}

func (c *capture) write(p []byte) {
	p = append(c.partial, p...)
	whole := len(p) - partialRune(p)
	c.partial = bytes.Clone(p[whole:])
	c.emit(p[:whole])
}

func (c *capture) emit(p []byte) {
	if len(p) == 0 {
		return
	}
	p = bytes.ToValidUTF8(p, []byte("\uFFFD"))
	c.total += int64(len(p))
	if c.live != nil {
		c.live(p)
	}
	take := min(len(p), c.limit-len(c.head))
	c.head = append(c.head, p[:take]...)
	c.tail = append(c.tail, p[take:]...)
	if len(c.tail) > 2*c.limit { // seldom, so that each byte is moved about once
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-c.limit:]...)
	}
}

// text returns what was kept and how many bytes were not.
func (c *capture) text() (string, int64) {
	tail := c.tail[max(0, len(c.tail)-c.limit):]
	if c.total == int64(len(c.head)+len(tail)) {
		return string(c.head) + string(tail), 0
	}
	head := c.head[:len(c.head)-partialRune(c.head)]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	cut := c.total - int64(len(head)+len(tail))
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", head, cut, tail), cut
}

// partialRune returns how many bytes at the end of p begin a rune without
// ending it.
func partialRune(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if last := p[len(p)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

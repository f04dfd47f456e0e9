package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// visible makes a text of others (a model, another user) one that does nothing to a
// terminal: control characters but for line breaks and tabs, and those that turn the
// direction of writing, become U+FFFD.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.IsControl(r), r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069:
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// sayf is fmt.Fprintf of visible text.
func sayf(w io.Writer, format string, args ...any) error {
	_, err := io.WriteString(w, visible(fmt.Sprintf(format, args...)))
	return err
}

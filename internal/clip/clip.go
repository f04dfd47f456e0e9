// Package clip shortens text for places with a bound.
package clip

import "unicode/utf8"

// Text returns at most n bytes of s, whole characters; what it leaves out is shown
// as "…". n must be at least 3.
func Text(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const more = "…"
	n -= len(more)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + more
}

package journal

import "bytes"

// Bounds of a number in JSON. They keep exact arithmetic on accepted numbers, here and
// in programs that read them, to a few thousand digits.
const (
	MaxNumberBytes    = 1000 // of its text
	MaxNumberExponent = 1000 // absolute value of the exponent
)

// FitNumber reports whether text, a JSON number, is within MaxNumberBytes and
// MaxNumberExponent.
func FitNumber(text []byte) bool {
	if len(text) > MaxNumberBytes {
		return false
	}
	e := bytes.IndexAny(text, "eE")
	if e < 0 {
		return true
	}
	exponent := 0
	for _, c := range bytes.TrimLeft(text[e+1:], "+-") {
		if exponent = 10*exponent + int(c-'0'); exponent > MaxNumberExponent {
			return false
		}
	}
	return true
}

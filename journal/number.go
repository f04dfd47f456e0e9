package journal

import "bytes"

// Bounds of a number in JSON. Whatever computes with a number that was let in,
// here or in a program that reads it, has at most a few thousand digits to hold.
const (
	MaxNumberBytes    = 1000 // of its text
	MaxNumberExponent = 1000 // of the power of ten behind e, in either direction
)

// FitNumber reports whether a number, as JSON writes it, is within
// MaxNumberBytes and MaxNumberExponent.
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

package journal

import "bytes"

// Bounds of a number in JSON. Whatever computes with a number that was let in,
// here or in a program that reads it, has at most a few thousand digits to hold.
const (
	MaxNumberBytes    = 1000 // of its text
	MaxNumberExponent = 1000 // of the power of ten behind e, in either direction
)

// checkNumbers reports a number in valid JSON that is beyond the bounds as
// ErrInvalid. Numbers within them are kept digit for digit.
func checkNumbers(what string, data []byte) error {
	for i := 0; i < len(data); {
		switch c := data[i]; {
		case c == '"':
			i += stringEnd(data[i:])
		case c == '-' || '0' <= c && c <= '9':
			n := numberEnd(data[i:])
			if !FitNumber(data[i : i+n]) {
				return invalidf("%s: the number %.40s… has more than %d characters or an exponent beyond ±%d",
					what, data[i:i+n], MaxNumberBytes, MaxNumberExponent)
			}
			i += n
		default:
			i++
		}
	}
	return nil
}

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

// stringEnd is the length of the string that data begins with.
func stringEnd(data []byte) int {
	for i := 1; i < len(data); i++ {
		n := bytes.IndexByte(data[i:], '"')
		if n < 0 {
			break
		}
		i += n
		slashes := 0
		for data[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
	return len(data)
}

// numberEnd is the length of the number that data begins with.
func numberEnd(data []byte) int {
	for i, c := range data {
		if !('0' <= c && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E') {
			return i
		}
	}
	return len(data)
}

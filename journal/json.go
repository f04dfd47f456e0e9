package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// How deep JSON may nest: in a record, and in what comes from outside; in an
// event. What a record holds is told in events, and kept in receipts and other
// records of the kernel, with a few levels around it. These have the room for
// that, so a record that was taken can always go on and end.
const (
	MaxDepth      = 128
	MaxEventDepth = MaxDepth + 8
)

// CheckJSON reports data that is not one JSON value in UTF-8, nests deeper than
// MaxDepth, or holds a number beyond MaxNumberBytes or MaxNumberExponent, as
// ErrInvalid; more than MaxValueBytes as ErrTooLarge. What passes is kept as it is
// written, numbers digit for digit.
func CheckJSON(what string, data []byte) error {
	return CheckJSONTo(what, data, MaxDepth)
}

// CheckJSONTo is CheckJSON with another bound of the depth.
func CheckJSONTo(what string, data []byte, depth int) error {
	if err := CheckStoredJSON(what, data, depth); err != nil {
		return err
	}
	return checkNumbers(what, data)
}

// CheckStoredJSON is CheckJSONTo for what a store holds already: earlier versions put
// no bounds on numbers.
func CheckStoredJSON(what string, data []byte, depth int) error {
	if len(data) > MaxValueBytes {
		return fmt.Errorf("%w: %s has %d bytes, the limit is %d; keep larger content as a blob", ErrTooLarge, what, len(data), MaxValueBytes)
	}
	if deeper(data, depth) {
		return invalidf("%s nests deeper than %d levels", what, depth)
	}
	if !json.Valid(data) {
		return invalidf("%s is not JSON", what)
	}
	if !utf8.Valid(data) { // RFC 8259, section 8.1; some engines refuse it
		return invalidf("%s is not UTF-8", what)
	}
	return nil
}

// deeper reports whether data nests deeper than depth. Most data has too few
// brackets for that, which is quick to see.
func deeper(data []byte, depth int) bool {
	return bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) > depth && JSONDepth(data) > depth
}

// JSONDepth is the deepest nesting in data, exact for valid JSON. Ask before a
// parser sees the data, so that no parser can be made to recurse.
func JSONDepth(data []byte) int {
	depth, deepest := 0, 0
	inString := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

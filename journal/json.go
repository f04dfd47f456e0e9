package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// How deep JSON may nest. MaxDepth holds for records and for input from outside.
// Events, and the kernel's own records such as receipts, contain values of records with
// a few levels around them, so they may nest up to MaxEventDepth: an operation on a
// valid record never fails because its event nests too deep.
const (
	MaxDepth      = 128
	MaxEventDepth = MaxDepth + 8
)

// CheckJSON returns ErrInvalid if data is not one JSON value in UTF-8, escapes half of
// a surrogate pair, nests deeper than MaxDepth, or contains a number beyond
// MaxNumberBytes or MaxNumberExponent. It returns ErrTooLarge if data is longer than
// MaxValueBytes.
func CheckJSON(what string, data []byte) error {
	_, err := CompactJSON(what, "", data, MaxDepth)
	return err
}

// CompactJSON is CheckJSON with the given limit of nesting, at most MaxEventDepth. It
// returns data without the white space between its tokens, or data itself if there is
// none; all other bytes stay the same. Errors call the data "<what> <name>".
func CompactJSON(what, name string, data []byte, depth int) (json.RawMessage, error) {
	s := scanner{in: data, depth: depth}
	return s.compact(), s.failure(what, name)
}

// CheckStoredJSON is like CompactJSON for data that a store already contains: it allows
// numbers of any size and half a surrogate pair, as earlier versions did.
func CheckStoredJSON(what, name string, data []byte, depth int) error {
	s := scanner{in: data, depth: depth, mend: true}
	s.compact()
	return s.failure(what, name)
}

// MendJSON returns data that a store already contains as CompactJSON accepts it, so that
// it can be written again: half a surrogate pair becomes U+FFFD, and a number beyond
// MaxNumberBytes or MaxNumberExponent becomes a string, digit for digit. If there is
// neither, or data is not JSON, it returns data itself.
func MendJSON(data json.RawMessage) json.RawMessage {
	if !mayNeedMending(data) {
		return data
	}
	s := scanner{in: data, depth: MaxEventDepth, mend: true}
	if mended := s.compact(); s.problem == "" {
		return mended
	}
	return data
}

// mayNeedMending reports whether data contains half a surrogate pair or a number that
// does not fit, or something that looks like one. It is much faster than a scan.
func mayNeedMending(data []byte) bool {
	if bytes.Contains(data, []byte(`\ud`)) || bytes.Contains(data, []byte(`\uD`)) {
		return true
	}
	// A number that does not fit has four digits in a row, so one of them is looked at.
	for i := 3; i < len(data); i += 4 {
		if !digit(data[i]) {
			continue
		}
		first, last := i, i
		for first > 0 && digit(data[first-1]) {
			first--
		}
		for last+1 < len(data) && digit(data[last+1]) {
			last++
		}
		sign := bytes.TrimRight(data[max(first-2, 0):first], "+-")
		if last-first > MaxNumberBytes/4 || last-first >= 3 && len(sign) > 0 && sign[len(sign)-1]|0x20 == 'e' {
			return true
		}
		i += (last - i) / 4 * 4
	}
	return false
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// JSONDepth returns the deepest nesting in data; it is exact for valid JSON. Call it
// before a recursive parser reads the data.
func JSONDepth(data []byte) int {
	depth, deepest := 0, 0
	inString := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			if inString = !inString; inString {
				i += plain(data[i+1:])
			}
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

// scanner reads a JSON value (RFC 8259) once, from its first byte to its last.
type scanner struct {
	in    []byte
	depth int  // the limit of nesting
	mend  bool // replace what CheckStoredJSON allows: see MendJSON

	at      int    // index of the next byte
	out     []byte // the compacted copy of in; nil until the first difference
	copied  int    // how much of in is in out or was left out
	problem string // what is wrong, or ""
	large   bool

	stack [MaxEventDepth]byte // closing brackets of the open arrays and objects
	open  int
}

// failure returns the scan's error, or nil.
func (s *scanner) failure(what, name string) error {
	if s.problem == "" {
		return nil
	}
	if name != "" {
		what += " " + name
	}
	kind := ErrInvalid
	if s.large {
		kind = ErrTooLarge
	}
	return fmt.Errorf("%w: %s %s", kind, what, s.problem)
}

// fail stops the scan. Only the first failure is kept.
func (s *scanner) fail(format string, args ...any) {
	if s.problem == "" {
		s.problem = fmt.Sprintf(format, args...)
	}
	s.at = len(s.in)
}

// compact scans the input and returns it without white space.
func (s *scanner) compact() []byte {
	if len(s.in) > MaxValueBytes {
		s.large = true
		s.fail("has %d bytes, the limit is %d; keep larger content as a blob", len(s.in), MaxValueBytes)
		return nil
	}
	s.value()
	for s.problem == "" && s.open > 0 {
		s.member()
	}
	if s.space(); s.problem == "" && s.at < len(s.in) {
		s.fail("is not JSON: there is something after the value")
	}
	switch {
	case s.problem != "":
		return nil
	case s.copied == 0:
		return s.in
	}
	return append(s.out, s.in[s.copied:]...)
}

// replace puts text in the place of the input from start up to the next byte.
func (s *scanner) replace(start int, text string) {
	if s.out == nil {
		s.out = make([]byte, 0, len(s.in)-1)
	}
	s.out = append(append(s.out, s.in[s.copied:start]...), text...)
	s.copied = s.at
}

// space skips white space.
func (s *scanner) space() {
	start := s.at
	for s.at < len(s.in) && (s.in[s.at] == ' ' || s.in[s.at] == '\n' || s.in[s.at] == '\t' || s.in[s.at] == '\r') {
		s.at++
	}
	if s.at > start {
		s.replace(start, "")
	}
}

// next skips white space and returns the byte after it; 0 at the end.
func (s *scanner) next() byte {
	if s.at < len(s.in) && s.in[s.at] > ' ' {
		return s.in[s.at]
	}
	if s.space(); s.at < len(s.in) {
		return s.in[s.at]
	}
	return 0
}

// value reads a scalar, or opens an array or object and reads its first member.
func (s *scanner) value() {
	switch c := s.next(); c {
	case '{', '[':
		s.at++
		if s.open == s.depth {
			s.fail("nests deeper than %d levels", s.depth)
			return
		}
		s.stack[s.open] = c + 2 // the bracket that closes it
		s.open++
		switch {
		case s.next() == c+2: // empty
		case c == '{':
			s.name()
		default:
			s.value()
		}
	case '"':
		s.text()
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		s.number()
	}
}

// member reads the end of the innermost array or object, or its next member.
func (s *scanner) member() {
	closing := s.stack[s.open-1]
	switch s.next() {
	case closing:
		s.at++
		s.open--
	case ',':
		s.at++
		if closing == '}' {
			s.name()
		} else {
			s.value()
		}
	default:
		s.fail("is not JSON: byte %d is neither a comma nor %c", s.at, closing)
	}
}

// name reads the name of a member of an object, and its value.
func (s *scanner) name() {
	if s.next() != '"' {
		s.fail("is not JSON: the name at byte %d is not a string", s.at)
		return
	}
	s.text()
	if s.next() != ':' {
		s.fail("is not JSON: there is no colon at byte %d", s.at)
		return
	}
	s.at++
	s.value()
}

func (s *scanner) word(w string) {
	if len(s.in)-s.at < len(w) || string(s.in[s.at:s.at+len(w)]) != w {
		s.fail("is not JSON: byte %d begins no value", s.at)
		return
	}
	s.at += len(w)
}

// text reads a string.
func (s *scanner) text() {
	for s.at += 1 + plain(s.in[s.at+1:]); s.at < len(s.in); {
		switch c := s.in[s.at]; {
		case c == '"':
			s.at++
			return
		case c == '\\':
			s.escape()
			s.at += plain(s.in[s.at:])
		case c < 0x20:
			s.fail("is not JSON: byte %d is a control character in a string", s.at)
		case c < utf8.RuneSelf:
			s.at++
		default:
			r, n := utf8.DecodeRune(s.in[s.at:])
			if r == utf8.RuneError && n == 1 { // RFC 8259, section 8.1; some engines refuse it
				s.fail("is not UTF-8 at byte %d", s.at)
				return
			}
			s.at += n
		}
	}
	s.fail("is not JSON: a string has no end")
}

// plain returns the length of a beginning of b, in steps of eight bytes, that is ASCII
// and that a string holds as it is: each byte of x below is checked at once for its high
// bit, for being less than a space, a quote and a backslash. A carry from one byte into
// the next can only end the beginning too early.
func plain(b []byte) (n int) {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; len(b)-n >= 8; n += 8 {
		x := binary.LittleEndian.Uint64(b[n:])
		if (x|(x-each*' ')|((x^each*'"')-each)|((x^each*'\\')-each))&high != 0 {
			break
		}
	}
	return n
}

// escape reads a backslash and what it escapes.
func (s *scanner) escape() {
	if s.at+1 == len(s.in) {
		s.fail("is not JSON: a string has no end")
		return
	}
	switch s.in[s.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += 2
		return
	case 'u':
	default:
		s.fail("is not JSON: byte %d escapes nothing", s.at)
		return
	}
	start := s.at
	unit, ok := s.unit()
	const high, low, end = 0xd800, 0xdc00, 0xe000
	if !ok || unit < high || unit >= end {
		return
	}
	if unit < low && s.at+1 < len(s.in) && s.in[s.at] == '\\' && s.in[s.at+1] == 'u' {
		second := s.at
		if unit, ok = s.unit(); !ok || low <= unit && unit < end {
			return
		}
		s.at = second
	}
	if s.mend {
		s.replace(start, `\ufffd`)
		return
	}
	s.fail("escapes half of a surrogate pair before byte %d, which is no character", s.at)
}

// unit reads \u and four hex digits.
func (s *scanner) unit() (n int, ok bool) {
	if len(s.in)-s.at < 6 {
		s.fail("is not JSON: a string has no end")
		return 0, false
	}
	for _, c := range s.in[s.at+2 : s.at+6] {
		switch {
		case '0' <= c && c <= '9':
			n = n<<4 + int(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			n = n<<4 + int(c|0x20-'a') + 10
		default:
			s.fail("is not JSON: byte %d escapes nothing", s.at)
			return 0, false
		}
	}
	s.at += 6
	return n, true
}

// number reads a number.
func (s *scanner) number() {
	start := s.at
	if s.at < len(s.in) && s.in[s.at] == '-' {
		s.at++
	}
	zero := s.at < len(s.in) && s.in[s.at] == '0'
	if n := s.digits(); n == 0 || zero && n > 1 {
		s.fail("is not JSON: byte %d begins no value", start)
		return
	}
	if s.at < len(s.in) && s.in[s.at] == '.' {
		s.at++
		if s.digits() == 0 {
			s.fail("is not JSON: the number at byte %d has no digits behind its point", start)
			return
		}
	}
	if s.at < len(s.in) && (s.in[s.at] == 'e' || s.in[s.at] == 'E') {
		s.at++
		if s.at < len(s.in) && (s.in[s.at] == '-' || s.in[s.at] == '+') {
			s.at++
		}
		if s.digits() == 0 {
			s.fail("is not JSON: the number at byte %d has no exponent", start)
			return
		}
	}
	switch text := s.in[start:s.at]; {
	case FitNumber(text):
	case s.mend:
		s.replace(start, `"`+string(text)+`"`)
	default:
		s.fail("holds the number %.40s…, which has more than %d characters or an exponent beyond ±%d", text, MaxNumberBytes, MaxNumberExponent)
	}
}

// digits reads digits and returns how many there are.
func (s *scanner) digits() int {
	start := s.at
	for s.at < len(s.in) && digit(s.in[s.at]) {
		s.at++
	}
	return s.at - start
}

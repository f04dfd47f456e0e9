package journal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckSpaceName returns ErrInvalid unless name is "global" or kind:id. A kind consists
// of a–z, 0–9, - and _, and starts with a letter. An id is any text without white
// space, control characters, /, * and commas: patterns use *, and lists of spaces use
// commas. A name longer than MaxNameBytes is ErrTooLarge.
func CheckSpaceName(name string) error {
	if err := CheckAnySpaceName(name); err != nil {
		return err
	}
	_, id, _ := strings.Cut(name, ":")
	if strings.ContainsFunc(id, func(r rune) bool { return r == '*' || r == ',' || unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return invalidf("space %.80q: an id holds no *, comma, white space or control character", name)
	}
	return nil
}

// CheckSpacePattern returns ErrInvalid unless pattern is the name of a space, "kind:*"
// for all spaces of a kind, or "*" for all spaces.
func CheckSpacePattern(pattern string) error {
	if pattern == "*" {
		return nil
	}
	name := pattern
	if kind, ok := strings.CutSuffix(pattern, ":*"); ok {
		name = kind + ":id"
	}
	if CheckSpaceName(name) != nil {
		return invalidf("space pattern %.80q is not a space, \"kind:*\" or \"*\"", pattern)
	}
	return nil
}

// CheckAnySpaceName is CheckSpaceName with the rules of earlier versions. Spaces with
// such names can still be opened, but new ones cannot be created.
func CheckAnySpaceName(name string) error {
	if name == "global" {
		return nil
	}
	kind, id, ok := strings.Cut(name, ":")
	if !ok || kind == "" || id == "" {
		return invalidf("space %.80q is neither \"global\" nor \"kind:id\"", name)
	}
	for i, c := range []byte(kind) {
		if !('a' <= c && c <= 'z') && (i == 0 || !('0' <= c && c <= '9' || c == '-' || c == '_')) {
			return invalidf("space %.80q: a kind is a–z, 0–9, - and _, starting with a letter", name)
		}
	}
	if strings.Contains(id, "/") {
		return invalidf("space %.80q: an id holds no /", name)
	}
	return CheckName("space", name)
}

// CheckName checks the name of a space, key, stream or type: it returns ErrInvalid
// unless name is non-empty UTF-8 without control characters, and ErrTooLarge beyond
// MaxNameBytes. Errors call it "<what>".
func CheckName(what, name string) error {
	switch {
	case name == "":
		return invalidf("%s is empty", what)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("%w: %s %.40q… has %d bytes, the limit is %d", ErrTooLarge, what, name, len(name), MaxNameBytes)
	case !utf8.ValidString(name):
		return invalidf("%s %q is not UTF-8", what, name)
	}
	for _, c := range []byte(name) {
		if c < 0x20 || c == 0x7f {
			return invalidf("%s %q holds a control character", what, name)
		}
	}
	return nil
}

// CheckType is CheckName for the type of a new event. It also returns ErrInvalid for a
// character that people cannot see, such as U+200B: two types that look the same would
// be different. Journals may hold types with such characters from earlier versions.
func CheckType(typ string) error {
	if err := CheckName("type", typ); err != nil {
		return err
	}
	for _, r := range typ {
		if !unicode.IsPrint(r) || strings.ContainsRune(blank, r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return invalidf("type %q holds %U, which is not printable", typ, r)
		}
	}
	return nil
}

// blank holds the characters that are blank although they count as letters or symbols.
const blank = "\u2800\U0001d159\U00016fe4"

// CheckOptionalName is CheckName for a name that may be empty.
func CheckOptionalName(what, name string) error {
	if name == "" {
		return nil
	}
	return CheckName(what, name)
}

// CheckPrefix is CheckName for the prefix of a list, which is empty or ends in /.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if !strings.HasSuffix(prefix, "/") {
		return invalidf("prefix %.80q does not end in /", prefix)
	}
	return CheckName("prefix", prefix)
}

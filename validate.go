package thole

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxDepth is how deep JSON may nest in an event or a record.
const MaxDepth = 128

func checkSpaceName(name string) error {
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
	return checkName("space", name)
}

// checkName is what holds for every name: of spaces, keys, streams and types.
func checkName(what, name string) error {
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

// checkOptional is checkName for what may be empty.
func checkOptional(what, name string) error {
	if name == "" {
		return nil
	}
	return checkName(what, name)
}

func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if !strings.HasSuffix(prefix, "/") {
		return invalidf("prefix %.80q does not end in /", prefix)
	}
	return checkName("prefix", prefix)
}

// CheckJSON reports data that is not one JSON value in UTF-8, or nests deeper than
// MaxDepth, as ErrInvalid; more than MaxValueBytes as ErrTooLarge.
func CheckJSON(what string, data []byte) error {
	if len(data) > MaxValueBytes {
		return fmt.Errorf("%w: %s has %d bytes, the limit is %d; keep larger content as a blob", ErrTooLarge, what, len(data), MaxValueBytes)
	}
	if deep(data) {
		return invalidf("%s nests deeper than %d levels", what, MaxDepth)
	}
	if !json.Valid(data) {
		return invalidf("%s is not JSON", what)
	}
	if !utf8.Valid(data) { // RFC 8259, section 8.1; some engines refuse it
		return invalidf("%s is not UTF-8", what)
	}
	return nil
}

// deep reports whether data nests deeper than MaxDepth. Most data has too few
// brackets for that, which is quick to see.
func deep(data []byte) bool {
	return bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) > MaxDepth && JSONDepth(data) > MaxDepth
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

// check validates a commit and returns its size in bytes.
func (c *Commit) check() (int, error) {
	if len(c.Events) == 0 && len(c.Writes) == 0 {
		return 0, invalidf("a commit needs an event or a write")
	}
	if n := len(c.Checks) + len(c.Events) + len(c.Writes); n > MaxCommitItems {
		return 0, fmt.Errorf("%w: commit has %d items, the limit is %d", ErrTooLarge, n, MaxCommitItems)
	}
	if err := checkOptional("actor", c.Actor); err != nil {
		return 0, err
	}
	if err := checkOptional("cause", c.Cause); err != nil {
		return 0, err
	}
	size := 0
	for _, k := range c.Checks {
		name := k.Key + k.Stream
		if (k.Key == "") == (k.Stream == "") {
			return 0, invalidf("a check names either a stream or a key")
		}
		if err := checkName("check", name); err != nil {
			return 0, err
		}
		size += len(name)
	}
	for i := range c.Events {
		if err := c.Events[i].check(); err != nil {
			return 0, err
		}
		size += c.Events[i].size()
	}
	for i := range c.Writes {
		w := &c.Writes[i]
		if err := w.check(); err != nil {
			return 0, err
		}
		if slices.ContainsFunc(c.Writes[:i], func(x Write) bool { return x.Key == w.Key }) {
			return 0, invalidf("key %q is written twice in one commit", w.Key)
		}
		size += len(w.Key) + len(w.Value)
	}
	if size > MaxCommitBytes {
		return 0, fmt.Errorf("%w: commit has %d bytes, the limit is %d", ErrTooLarge, size, MaxCommitBytes)
	}
	return size, nil
}

func (e *Event) check() error {
	if err := checkName("stream", e.Stream); err != nil {
		return err
	}
	if err := checkName("type", e.Type); err != nil {
		return err
	}
	if err := checkOptional("subject", e.Subject); err != nil {
		return err
	}
	if len(e.Refs) > MaxCommitItems {
		return fmt.Errorf("%w: event %s has %d refs, the limit is %d", ErrTooLarge, e.Type, len(e.Refs), MaxCommitItems)
	}
	for _, ref := range e.Refs {
		if err := checkName("ref", ref); err != nil {
			return err
		}
	}
	if len(e.Data) == 0 {
		e.Data = json.RawMessage("null")
	}
	return CheckJSON("event "+e.Type, e.Data)
}

func (e *Event) size() int {
	n := len(e.Stream) + len(e.Type) + len(e.Subject) + len(e.Data)
	for _, ref := range e.Refs {
		n += len(ref)
	}
	return n
}

// maxNotifyBytes leaves room for the key and the braces of the event that ends
// a Notify record.
const maxNotifyBytes = MaxValueBytes - 4<<10

func (w *Write) check() error {
	if err := checkName("key", w.Key); err != nil {
		return err
	}
	if w.Value == nil {
		return nil
	}
	if !w.Expires.IsZero() {
		w.Expires = w.Expires.UTC().Truncate(time.Microsecond) // as it is stored
		if w.Expires.Before(time.UnixMicro(0)) || w.Expires.After(forever) {
			return invalidf("%s expires in the year %d", w.Key, w.Expires.Year())
		}
	}
	if w.Notify && len(w.Value) > maxNotifyBytes {
		return fmt.Errorf("%w: value of %s has %d bytes, the limit with Notify is %d", ErrTooLarge, w.Key, len(w.Value), maxNotifyBytes)
	}
	return CheckJSON("value of "+w.Key, w.Value)
}

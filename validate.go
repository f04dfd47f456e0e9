package thole

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
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

// CheckSpaceName returns ErrInvalid for what is no name of a space: "global", or
// kind:id. A kind is a–z, 0–9, - and _, starting with a letter. An id is any text
// without white space, control characters, /, * and a comma: patterns and lists of
// spaces need the last two. The whole has at most MaxNameBytes (ErrTooLarge).
func CheckSpaceName(name string) error {
	if err := checkSpaceName(name); err != nil {
		return err
	}
	_, id, _ := strings.Cut(name, ":")
	if strings.ContainsFunc(id, func(r rune) bool { return r == '*' || r == ',' || unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return invalidf("space %.80q: an id holds no *, comma, white space or control character", name)
	}
	return nil
}

// CheckSpacePattern returns ErrInvalid for what is no pattern of spaces: a space's
// name, "kind:*" for all spaces of a kind, or "*" for all.
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

// checkSpaceName is CheckSpaceName as it was in earlier versions, whose spaces can
// still be opened. New ones cannot be made: see [Store.admit].
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

// admit returns the error of CheckSpaceName for a space that is not there: one that a
// commit would make, or that a read would find empty.
// Stores that use this one as their backend ask for themselves.
func (s *Store) admit(ctx context.Context, space string) error {
	bad := CheckSpaceName(space)
	if bad == nil {
		return nil
	}
	heads, err := s.backend.Heads(ctx, space)
	if err != nil {
		return err
	}
	if heads[0].Last.IsZero() {
		return bad
	}
	return nil
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

// checkAppName returns ErrInvalid for a stream or key app/thread, and for one below
// it that names no thread. What is below app/thread/<id> is for those who may
// read that thread; what is not below a thread would have no readers of its own,
// and would be above what all threads keep.
func checkAppName(name string) error {
	below, ok := strings.CutPrefix(name+"/", "app/thread/")
	if !ok {
		return nil
	}
	id, _, _ := strings.Cut(below, "/")
	if CheckID("thrd", id) != nil {
		return invalidf("%.80q names no thread; what an application keeps for one is below app/thread/<id>", name)
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

// MaxTTL is the longest time after which something may be made to end: a hundred
// years. What is to stay has no such time.
const MaxTTL = 100 * 366 * 24 * time.Hour

// CheckTTL returns ErrInvalid for a time from outside after which something is to
// end that is negative or longer than MaxTTL. 0 stands for never, or a default.
func CheckTTL(what string, d time.Duration) error {
	if d < 0 || d > MaxTTL {
		return invalidf("%s of %v is not 0 to %v", what, d, MaxTTL)
	}
	return nil
}

// CheckJSON reports data that is not one JSON value in UTF-8, nests deeper than
// MaxDepth, or holds a number beyond MaxNumberBytes or MaxNumberExponent, as
// ErrInvalid; more than MaxValueBytes as ErrTooLarge. What passes is kept as it is
// written, numbers digit for digit.
func CheckJSON(what string, data []byte) error {
	return checkJSON(what, data, MaxDepth)
}

// checkJSON is CheckJSON with another bound of the depth.
func checkJSON(what string, data []byte, depth int) error {
	if err := checkStored(what, data, depth); err != nil {
		return err
	}
	return checkNumbers(what, data)
}

// depthUnder is how deep the value of a record may nest.
func depthUnder(key string) int {
	if Reserved(key) {
		return MaxEventDepth
	}
	return MaxDepth
}

// checkStored is checkJSON for what a store holds already: earlier versions put
// no bounds on numbers.
func checkStored(what string, data []byte, depth int) error {
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

// forever is the last time that a store keeps, by which every expiring record is due.
var forever = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)

// checkTime returns ErrInvalid for a time that RFC 3339 cannot write in UTC, and no
// time: no store keeps them. Every time that enters a Store passes here.
func checkTime(what string, t time.Time) error {
	if t.IsZero() {
		return invalidf("%s is missing", what)
	}
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return invalidf("%s is in the year %d; a store keeps those from 1 to 9999 in UTC", what, y)
	}
	return nil
}

// checkAnyTime is checkTime for what may have no time.
func checkAnyTime(what string, t time.Time) error {
	if t.IsZero() {
		return nil
	}
	return checkTime(what, t)
}

// epoch is the earliest time at which a record may be made to expire.
var epoch = time.Unix(0, 0)

// checkExpiry is checkTime for when the record under key ends, if it does. A time before
// 1970 is no clock's.
func checkExpiry(key string, t time.Time) error {
	if t.IsZero() {
		return nil
	}
	if t.Before(epoch) {
		return invalidf("the expiry of %s is before 1970", key)
	}
	return checkTime("the expiry of "+key, t)
}

// check validates a commit and returns its size in bytes.
func (c *Commit) check() (int, error) { return c.checkWith((*Event).check) }

func (c *Commit) checkWith(checkEvent func(*Event) error) (int, error) {
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
		if err := k.At.check(); err != nil {
			return 0, fmt.Errorf("check of %s: %w", name, err)
		}
		size += len(name)
	}
	for i := range c.Events {
		if err := checkEvent(&c.Events[i]); err != nil {
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

// check is checkRaw for an event in the making: one without data gets null.
func (e *Event) check() error {
	if len(e.Data) == 0 {
		e.Data = json.RawMessage("null")
	}
	if err := e.checkRaw(); err != nil {
		return err
	}
	if slices.Contains(e.Refs, "") {
		return invalidf("a ref of event %s is empty", e.Type)
	}
	return nil
}

// checkRaw lets data be absent and refs be empty, which do no harm.
func (e *Event) checkRaw() error {
	if err := e.checkNames(); err != nil {
		return err
	}
	if err := checkAppName(e.Stream); err != nil {
		return err
	}
	if e.Data == nil {
		return nil
	}
	return checkJSON("event "+e.Type, e.Data, MaxEventDepth)
}

func (e *Event) checkNames() error {
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
		if err := checkOptional("ref", ref); err != nil {
			return err
		}
	}
	return nil
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
	if err := checkAppName(w.Key); err != nil {
		return err
	}
	if err := checkExpiry(w.Key, w.Expires); err != nil {
		return err
	}
	if !w.Expires.IsZero() {
		w.Expires = w.Expires.UTC().Truncate(time.Microsecond) // as it is stored
	}
	if w.Notify && len(w.Value) > maxNotifyBytes {
		return fmt.Errorf("%w: value of %s has %d bytes, the limit with Notify is %d", ErrTooLarge, w.Key, len(w.Value), maxNotifyBytes)
	}
	return checkJSON("value of "+w.Key, w.Value, depthUnder(w.Key))
}

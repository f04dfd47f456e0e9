package thole

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/journal"
)

// admit returns nil if the space exists, else the error of CheckSpaceName. Stores that
// use this one as their backend call it themselves.
func (s *Store) admit(ctx context.Context, space string) error {
	bad := journal.CheckSpaceName(space)
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

// checkAppName returns ErrInvalid for a stream or key app/thread, and for one below it
// that is not below a valid app/thread/<id>. The readers of a thread may read what is
// below app/thread/<id>; nobody could be named as a reader of other names there.
func checkAppName(name string) error {
	below, ok := strings.CutPrefix(name, "app/thread")
	if !ok || below != "" && below[0] != '/' {
		return nil
	}
	below = strings.TrimPrefix(below, "/")
	id, _, _ := strings.Cut(below, "/")
	if CheckID("thrd", id) != nil {
		return invalidf("%.80q names no thread; what an application keeps for one is below app/thread/<id>", name)
	}
	return nil
}

// MaxTTL is the longest time to live: a hundred years. What must stay has none.
const MaxTTL = 100 * 366 * 24 * time.Hour

// CheckTTL returns ErrInvalid if d, a time to live from outside, is negative or longer
// than MaxTTL. 0 means never, or a default.
func CheckTTL(what string, d time.Duration) error {
	if d < 0 || d > MaxTTL {
		return invalidf("%s of %v is not 0 to %v", what, d, MaxTTL)
	}
	return nil
}

// depthUnder returns how deep the value of the record under key may nest.
func depthUnder(key string) int {
	if Reserved(key) {
		return journal.MaxEventDepth
	}
	return journal.MaxDepth
}

// forever is the latest time that a store can keep; by then every expiring record is
// due.
var forever = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)

// checkTime returns ErrInvalid if t is zero or outside of the years that RFC 3339 can
// express, in UTC: no store keeps such times. Every time that enters a Store is checked
// here.
func checkTime(what string, t time.Time) error {
	if t.IsZero() {
		return invalidf("%s is missing", what)
	}
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return invalidf("%s is in the year %d; a store keeps those from 1 to 9999 in UTC", what, y)
	}
	return nil
}

// checkAnyTime is checkTime for a time that may be zero.
func checkAnyTime(what string, t time.Time) error {
	if t.IsZero() {
		return nil
	}
	return checkTime(what, t)
}

// epoch is the earliest time at which a record may be made to expire.
var epoch = time.Unix(0, 0)

// checkExpiry is checkTime for the expiry of the record under key, which may be zero
// but not before 1970.
func checkExpiry(key string, t time.Time) error {
	if t.IsZero() {
		return nil
	}
	if t.Before(epoch) {
		return invalidf("the expiry of %s is before 1970", key)
	}
	return checkTime("the expiry of "+key, t)
}

// checkCommit validates a commit and returns its size in bytes. It also removes white
// space from its JSON. This happens only here, so that every engine and every watcher
// gets the same bytes.
func checkCommit(c *Commit) (int, error) { return checkCommitWith(c, checkEvent, checkWrite) }

func checkCommitWith(c *Commit, checkEvent func(*Event) error, checkWrite func(*Write) error) (int, error) {
	if len(c.Events) == 0 && len(c.Writes) == 0 {
		return 0, invalidf("a commit needs an event or a write")
	}
	if n := len(c.Checks) + len(c.Events) + len(c.Writes); n > MaxCommitItems {
		return 0, fmt.Errorf("%w: commit has %d items, the limit is %d", ErrTooLarge, n, MaxCommitItems)
	}
	if err := journal.CheckOptionalName("actor", c.Actor); err != nil {
		return 0, err
	}
	if err := journal.CheckOptionalName("cause", c.Cause); err != nil {
		return 0, err
	}
	size := 0
	for _, k := range c.Checks {
		name := k.Key + k.Stream
		if (k.Key == "") == (k.Stream == "") {
			return 0, invalidf("a check names either a stream or a key")
		}
		if err := journal.CheckName("check", name); err != nil {
			return 0, err
		}
		if err := k.At.Check(); err != nil {
			return 0, fmt.Errorf("check of %s: %w", name, err)
		}
		size += len(name)
	}
	for i := range c.Events {
		if err := checkEvent(&c.Events[i]); err != nil {
			return 0, err
		}
		size += c.Events[i].Size()
	}
	for i := range c.Writes {
		w := &c.Writes[i]
		if err := checkWrite(w); err != nil {
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

// checkEvent validates a new event and compacts its data; missing data becomes null.
func checkEvent(e *Event) error {
	if err := journal.CheckType(e.Type); err != nil {
		return err
	}
	if len(e.Data) == 0 {
		e.Data = json.RawMessage("null")
	}
	data, err := compactEvent(e)
	if err == nil && slices.Contains(e.Refs, "") {
		err = invalidf("a ref of event %s is empty", e.Type)
	}
	e.Data = data
	return err
}

// checkRawEvent validates an event without changing it. It allows missing data, empty
// refs, and types of earlier versions, which are harmless.
func checkRawEvent(e *Event) error {
	_, err := compactEvent(e)
	return err
}

// compactEvent validates an event and returns its data without white space.
func compactEvent(e *Event) (json.RawMessage, error) {
	if err := checkEventNames(e); err != nil {
		return nil, err
	}
	if err := checkAppName(e.Stream); err != nil {
		return nil, err
	}
	if e.Data == nil {
		return nil, nil
	}
	return journal.CompactJSON("event", e.Type, e.Data, journal.MaxEventDepth)
}

func checkEventNames(e *Event) error {
	if err := journal.CheckName("stream", e.Stream); err != nil {
		return err
	}
	if err := journal.CheckName("type", e.Type); err != nil {
		return err
	}
	if err := journal.CheckOptionalName("subject", e.Subject); err != nil {
		return err
	}
	if len(e.Refs) > MaxCommitItems {
		return fmt.Errorf("%w: event %s has %d refs, the limit is %d", ErrTooLarge, e.Type, len(e.Refs), MaxCommitItems)
	}
	for _, ref := range e.Refs {
		if err := journal.CheckOptionalName("ref", ref); err != nil {
			return err
		}
	}
	return nil
}

// maxNotifyBytes is the limit of a Notify record's value. It leaves room for the other
// members of [Expired].
const maxNotifyBytes = MaxValueBytes - 4<<10

// checkWrite validates a write and compacts its value.
func checkWrite(w *Write) error {
	value, err := compactWrite(w)
	w.Value = value
	return err
}

// checkRawWrite validates a write without changing its value.
func checkRawWrite(w *Write) error {
	_, err := compactWrite(w)
	return err
}

// compactWrite validates a write and returns its value without white space.
func compactWrite(w *Write) (json.RawMessage, error) {
	if err := journal.CheckName("key", w.Key); err != nil {
		return nil, err
	}
	if w.Value == nil {
		return nil, nil
	}
	if err := checkAppName(w.Key); err != nil {
		return nil, err
	}
	if err := checkExpiry(w.Key, w.Expires); err != nil {
		return nil, err
	}
	if !w.Expires.IsZero() {
		w.Expires = w.Expires.UTC().Truncate(time.Microsecond) // as it is stored
	}
	if w.Notify && len(w.Value) > maxNotifyBytes {
		return nil, fmt.Errorf("%w: value of %s has %d bytes, the limit with Notify is %d", ErrTooLarge, w.Key, len(w.Value), maxNotifyBytes)
	}
	return journal.CompactJSON("value of", w.Key, w.Value, depthUnder(w.Key))
}

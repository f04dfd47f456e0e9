package filestore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"time"
	"unicode/utf8"

	"github.com/thole-dev/thole/journal"
)

// A journal is a series of segments. Each is a file of lines, named after the
// first seq that it may hold. A line is a JSON object that begins with the
// CRC-32C of everything after the comma:
//
//	{"crc":"1b2c3d4e","head":{"space":…,"oldest":…,"last":…,"epochs":[…]}}
//	{"crc":"5f6a7b8c","at":"0001…-…42","time":…,"actor":…,"events":[…],"writes":[…]}
//	{"crc":"9d0e1f2a","at":"0001…-…43","joined":true,…}
//	{"crc":"3b4c5d6e","at":"0002…-…44","adopted":true,…}
//
// The first line of a segment is the head of the space before the segment. Every
// other line is a commit. "at" is its last position; "first" is its first seq, if
// different. "joined" says that the commit became durable together with the one before
// it, so its presence does not prove that the other was durable. "adopted" says that
// the commit begins an epoch with what people or git did to the files.
const (
	crcPrefix = `{"crc":"`
	crcLen    = len(crcPrefix) + 8 + len(`",`)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// line is one line of a journal: a head, or a commit.
type line struct {
	Head    *journal.Head    `json:"head"`
	At      journal.Position `json:"at"`
	First   uint64           `json:"first"`
	Joined  bool             `json:"joined"`
	Adopted bool             `json:"adopted"`
	Time    time.Time        `json:"time"`
	Actor   string           `json:"actor"`
	Cause   string           `json:"cause"`
	Events  []lineEvent      `json:"events"`
	Writes  []lineWrite      `json:"writes"`
}

type lineEvent struct {
	Seq      uint64          `json:"seq"`
	Stream   string          `json:"stream"`
	Type     string          `json:"type"`
	Subject  string          `json:"subject"`
	Refs     []string        `json:"refs"`
	Schema   int             `json:"schema"`
	Data     json.RawMessage `json:"data"`
	Raw      []byte          `json:"raw"`      // see inline
	Redacted bool            `json:"redacted"` // the line's actor and cause do not apply to it
}

type lineWrite struct {
	Key     string          `json:"key"`
	Schema  int             `json:"schema"`
	Expires time.Time       `json:"expires"`
	Notify  bool            `json:"notify"`
	Value   json.RawMessage `json:"value"`
	Raw     []byte          `json:"raw"`
	Deleted bool            `json:"deleted"`
	Erased  bool            `json:"erased"` // the value is only in the record's file, if anywhere
}

// first returns the seq of the commit's first position.
func (l *line) first() uint64 {
	if l.First != 0 {
		return l.First
	}
	return l.At.Seq
}

// event returns the i-th event as a [journal.Event] of the epoch.
func (l *line) event(i int, epoch string) journal.Event {
	e := &l.Events[i]
	out := journal.Event{
		Position: journal.Position{Epoch: epoch, Seq: e.Seq}, Stream: e.Stream, Type: e.Type, Time: l.Time,
		Actor: l.Actor, Cause: l.Cause, Subject: e.Subject, Refs: e.Refs, Schema: e.Schema, Data: e.Data,
	}
	if e.Redacted {
		out.Redact()
	}
	return out
}

// seal writes the CRC of a line into it.
func seal(line []byte) {
	sum := crc32.Checksum(line[crcLen:], castagnoli)
	for i := range 8 {
		line[len(crcPrefix)+i] = hexDigits[sum>>(28-4*i)&15]
	}
}

// sealed returns the CRC that a line holds and reports whether it is right.
func sealed(line []byte) (string, bool) {
	if len(line) < crcLen || string(line[:len(crcPrefix)]) != crcPrefix {
		return "", false
	}
	crc := string(line[len(crcPrefix) : len(crcPrefix)+8])
	return crc, crc == fmt.Sprintf("%08x", crc32.Checksum(line[crcLen:], castagnoli))
}

// parseLine decodes a line without its newline. The result may alias data. A bad
// line is ErrCorrupt with the reason.
func parseLine(data []byte) (*line, error) {
	if _, ok := sealed(data); !ok {
		return nil, fmt.Errorf("%w: its checksum is wrong", journal.ErrCorrupt)
	}
	l := new(line)
	if journal.JSONDepth(data) > journal.MaxEventDepth+8 {
		return nil, fmt.Errorf("%w: it nests too deep", journal.ErrCorrupt)
	}
	if err := json.Unmarshal(data, l); err != nil {
		return nil, fmt.Errorf("%w: %v", journal.ErrCorrupt, err)
	}
	if err := l.validate(); err != nil {
		return nil, err
	}
	return l, nil
}

// validate returns ErrCorrupt if a line lacks what it must hold. It replaces values
// by their raw originals where the line has them.
func (l *line) validate() error {
	bad := func(what string) error { return fmt.Errorf("%w: %s", journal.ErrCorrupt, what) }
	if h := l.Head; h != nil {
		if h.Space == "" || h.Last.IsZero() != (len(h.Epochs) == 0) {
			return bad("its head is none")
		}
		return nil
	}
	if l.At.Seq == 0 || l.first() > l.At.Seq {
		return bad("its position is none")
	}
	last := l.first() - 1
	for i := range l.Events {
		e := &l.Events[i]
		if e.Seq <= last || e.Seq > l.At.Seq || e.Stream == "" {
			return bad("an event is out of place")
		}
		last = e.Seq
		if e.Raw != nil {
			e.Data, e.Raw = e.Raw, nil
		}
	}
	for i := range l.Writes {
		w := &l.Writes[i]
		if w.Raw != nil {
			w.Value, w.Raw = w.Raw, nil
		}
		if w.Key == "" || !w.Deleted && !w.Erased && w.Value == nil {
			return bad("a write has no key or no value")
		}
	}
	return nil
}

// newLine returns the line of a commit with the positions of r.
func newLine(c *journal.Commit, r journal.Result) *line {
	l := &line{At: r.Last, Time: micro(c.Now), Actor: c.Actor, Cause: c.Cause}
	if n := len(c.Events); n > 1 {
		l.First = r.First.Seq
	}
	for i := range c.Events {
		e := &c.Events[i]
		l.Events = append(l.Events, lineEvent{
			Seq: r.First.Seq + uint64(i), Stream: e.Stream, Type: e.Type, Subject: e.Subject,
			Refs: e.Refs, Schema: e.Schema, Data: e.Data,
		})
	}
	for i := range c.Writes {
		w := &c.Writes[i]
		out := lineWrite{Key: w.Key, Deleted: w.Value == nil}
		if !out.Deleted {
			out.Schema, out.Expires, out.Notify = w.Schema, micro(w.Expires), w.Notify
			out.Value = bytes.Clone(w.Value)
		}
		l.Writes = append(l.Writes, out)
	}
	return l
}

// loadedLine returns the line of an imported event.
func loadedLine(e *journal.Event) *line {
	return &line{At: e.Position, Time: micro(e.Time), Actor: e.Actor, Cause: e.Cause, Events: []lineEvent{{
		Seq: e.Position.Seq, Stream: e.Stream, Type: e.Type, Subject: e.Subject,
		Refs: e.Refs, Schema: e.Schema, Data: e.Data,
	}}}
}

// micro returns t as it is stored: in UTC, cut to microseconds.
func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// checkNames returns ErrInvalid for a name that JSON cannot hold.
func checkNames(c *journal.Commit) error {
	names := []string{c.Actor, c.Cause}
	for i := range c.Events {
		e := &c.Events[i]
		names = append(append(names, e.Stream, e.Type, e.Subject), e.Refs...)
	}
	for i := range c.Writes {
		names = append(names, c.Writes[i].Key)
	}
	for _, name := range names {
		if !utf8.ValidString(name) {
			return fmt.Errorf("%w: the name %q is not UTF-8", journal.ErrInvalid, name)
		}
	}
	return nil
}

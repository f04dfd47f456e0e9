package filestore

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"github.com/thole-dev/thole/journal"
)

// append appends the encoded line with its CRC and a newline.
func (l *line) append(b []byte) []byte {
	start := len(b)
	b = append(b, crcPrefix+`00000000",`...)
	if l.Head != nil {
		b = append(b, `"head":`...)
		b = appendHead(b, l.Head)
	} else {
		b = l.appendCommit(b)
	}
	b = append(b, '}')
	seal(b[start:])
	return append(b, '\n')
}

func appendHead(b []byte, h *journal.Head) []byte {
	b = appendString(append(b, `{"space":`...), h.Space)
	b = appendPosition(append(b, `,"oldest":`...), h.Oldest)
	b = appendPosition(append(b, `,"last":`...), h.Last)
	b = append(b, `,"epochs":[`...)
	for i, e := range h.Epochs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(append(b, `{"epoch":`...), e.Name)
		b = strconv.AppendUint(append(b, `,"first":`...), e.First, 10)
		b = strconv.AppendUint(append(b, `,"last":`...), e.Last, 10)
		if e.Adopted {
			b = append(b, `,"adopted":true`...)
		}
		b = append(b, '}')
	}
	return append(b, `]}`...)
}

func (l *line) appendCommit(b []byte) []byte {
	b = appendPosition(append(b, `"at":`...), l.At)
	if first := l.first(); first != l.At.Seq {
		b = strconv.AppendUint(append(b, `,"first":`...), first, 10)
	}
	if l.Joined {
		b = append(b, `,"joined":true`...)
	}
	if l.Adopted {
		b = append(b, `,"adopted":true`...)
	}
	b = appendTime(append(b, `,"time":`...), l.Time)
	b = appendField(b, `,"actor":`, l.Actor)
	b = appendField(b, `,"cause":`, l.Cause)
	sep := `,"events":[`
	for i := range l.Events {
		b = l.Events[i].append(append(b, sep...))
		sep = ","
	}
	if len(l.Events) > 0 {
		b = append(b, ']')
	}
	sep = `,"writes":[`
	for i := range l.Writes {
		b = l.Writes[i].append(append(b, sep...))
		sep = ","
	}
	if len(l.Writes) > 0 {
		b = append(b, ']')
	}
	return b
}

func (e *lineEvent) append(b []byte) []byte {
	b = strconv.AppendUint(append(b, `{"seq":`...), e.Seq, 10)
	b = appendField(b, `,"stream":`, e.Stream)
	b = appendField(b, `,"type":`, e.Type)
	b = appendField(b, `,"subject":`, e.Subject)
	if len(e.Refs) > 0 {
		sep := byte('[')
		b = append(b, `,"refs":`...)
		for _, ref := range e.Refs {
			b = appendString(append(b, sep), ref)
			sep = ','
		}
		b = append(b, ']')
	}
	if e.Schema != 0 {
		b = strconv.AppendInt(append(b, `,"schema":`...), int64(e.Schema), 10)
	}
	if e.Redacted {
		b = append(b, `,"redacted":true`...)
	}
	return append(appendValue(b, `,"data":`, e.Data), '}')
}

func (w *lineWrite) append(b []byte) []byte {
	b = appendString(append(b, `{"key":`...), w.Key)
	if w.Deleted {
		return append(b, `,"deleted":true}`...)
	}
	if w.Schema != 0 {
		b = strconv.AppendInt(append(b, `,"schema":`...), int64(w.Schema), 10)
	}
	if !w.Expires.IsZero() {
		b = appendTime(append(b, `,"expires":`...), w.Expires)
	}
	if w.Notify {
		b = append(b, `,"notify":true`...)
	}
	if w.Erased {
		return append(b, `,"erased":true}`...)
	}
	return append(appendValue(b, `,"value":`, w.Value), '}')
}

// appendValue appends a JSON value unchanged if a line can hold it. If its white
// space prevents that, it appends the value without white space, followed by the
// original in base64 as "raw".
func appendValue(b []byte, name string, v json.RawMessage) []byte {
	if v == nil {
		return b
	}
	b = append(b, name...)
	if inline(v) {
		return append(b, v...)
	}
	b = append(b, compact(v)...)
	b = append(b, `,"raw":"`...)
	b = base64.StdEncoding.AppendEncode(b, v)
	return append(b, '"')
}

// inline reports whether a line can hold a JSON value unchanged.
func inline(v []byte) bool {
	return len(v) > 0 && v[0] > ' ' && v[len(v)-1] > ' ' && bytes.IndexByte(v, '\n') < 0 && bytes.IndexByte(v, '\r') < 0
}

// compact returns JSON without white space between its tokens.
func compact(v []byte) []byte {
	var b bytes.Buffer
	if err := json.Compact(&b, v); err != nil {
		return []byte("null") // not JSON; the Store rejects that before
	}
	return b.Bytes()
}

func appendField(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendString(append(b, name...), value)
}

func appendPosition(b []byte, p journal.Position) []byte {
	return append(append(append(b, '"'), p.String()...), '"')
}

// timeLayout has microseconds, like all times in the store.
const timeLayout = `"2006-01-02T15:04:05.999999Z"`

func appendTime(b []byte, t time.Time) []byte { return t.UTC().AppendFormat(b, timeLayout) }

// appendString appends s as a JSON string, with as little escaping as JSON allows, so
// that people can read it.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c == 0x7f:
			b = append(b, `\u00`...)
			b = append(b, hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

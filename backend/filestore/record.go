package filestore

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/thole-dev/thole/journal"
)

// A record is one file that holds its value:
//
//	{
//	  "key": "thread/thrd_1",
//	  "version": "0001…-…42",
//	  "updated": "2026-01-02T03:04:05.000006Z",
//	  "sum": "1b2c3d4e",
//	  "value": {
//	    "title": "A conversation"
//	  }
//	}
//
// The sum is a CRC-32C over everything else (see recordSum). A wrong or missing sum
// means that a person changed the record. If the committed value had white space
// between its tokens, "raw" holds the original in base64.
type recordEnvelope struct {
	Key     string           `json:"key"`
	Version journal.Position `json:"version"`
	Updated time.Time        `json:"updated,omitzero"`
	Expires time.Time        `json:"expires,omitzero"`
	Notify  bool             `json:"notify,omitempty"`
	Schema  int              `json:"schema,omitempty"`
	Sum     string           `json:"sum"`
	Value   json.RawMessage  `json:"value"`
	Raw     []byte           `json:"raw"`
}

// encodeRecord returns the content of a record's file.
func encodeRecord(r *journal.Record) []byte {
	value := compact(r.Value)
	b := appendString([]byte("{\n  \"key\": "), r.Key)
	b = appendPosition(append(b, ",\n  \"version\": "...), r.Version)
	b = appendTime(append(b, ",\n  \"updated\": "...), r.Updated)
	if !r.Expires.IsZero() {
		b = appendTime(append(b, ",\n  \"expires\": "...), r.Expires)
	}
	if r.Notify {
		b = append(b, ",\n  \"notify\": true"...)
	}
	if r.Schema != 0 {
		b = fmt.Appendf(b, ",\n  \"schema\": %d", r.Schema)
	}
	b = fmt.Appendf(b, ",\n  \"sum\": \"%08x\",\n  \"value\": ", recordSum(r, value))
	pretty := bytes.NewBuffer(b)
	if err := json.Indent(pretty, value, "  ", "  "); err != nil {
		pretty.WriteString("null")
	}
	if !bytes.Equal(value, r.Value) {
		fmt.Fprintf(pretty, ",\n  \"raw\": %q", base64.StdEncoding.EncodeToString(r.Value))
	}
	pretty.WriteString("\n}\n")
	return pretty.Bytes()
}

// recordSum returns the sum of a record with that value.
func recordSum(r *journal.Record, value []byte) uint32 {
	b := append(appendString(nil, r.Key), r.Version.String()...)
	b = appendTime(b, r.Updated)
	b = appendTime(b, r.Expires)
	b = fmt.Appendf(b, "%v %d", r.Notify, r.Schema)
	return crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, value)
}

// decodeRecord decodes the content of a record's file. It reports whether the record
// is as the store wrote it. Content that is not a record is ErrCorrupt; the text says
// what a person has to repair.
func decodeRecord(data []byte) (r journal.Record, ours bool, err error) {
	var e recordEnvelope
	if journal.JSONDepth(data) > journal.MaxEventDepth+8 {
		return r, false, fmt.Errorf("%w: it nests too deep", journal.ErrCorrupt)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return r, false, fmt.Errorf("%w: it is not the JSON of a record (%v); mend it, or delete the file to delete the record", journal.ErrCorrupt, err)
	}
	if e.Value == nil {
		return r, false, fmt.Errorf(`%w: it has no "value"; add it, or delete the file to delete the record`, journal.ErrCorrupt)
	}
	for _, t := range []time.Time{e.Updated, e.Expires} {
		if y := t.UTC().Year(); y < 0 || y > 9999 {
			return r, false, fmt.Errorf("%w: it has a time in the year %d in UTC, which cannot be written; mend it", journal.ErrCorrupt, y)
		}
	}
	value := compact(e.Value)
	if len(value) > journal.MaxValueBytes {
		return r, false, fmt.Errorf("%w: its value has %d bytes, the limit is %d", journal.ErrCorrupt, len(value), journal.MaxValueBytes)
	}
	r = journal.Record{
		Key: e.Key, Value: value, Schema: e.Schema, Version: e.Version,
		Updated: micro(e.Updated), Expires: micro(e.Expires), Notify: e.Notify,
	}
	ours = e.Sum == fmt.Sprintf("%08x", recordSum(&r, value))
	if e.Raw != nil && json.Valid(e.Raw) && bytes.Equal(compact(e.Raw), value) {
		r.Value = e.Raw
	}
	return r, ours && r.Exists(), nil
}

package journal_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/thole-dev/thole/journal"
)

func FuzzParsePosition(f *testing.F) {
	for _, s := range []string{"", "x", "0001deadbeef-0000000000000001", "9999ffffffff-0009007199254740991", "0001deadbeef-9007199254740991",
		"0001DEADBEEF-0000000000000001", "0001deadbeef_0000000000000001", "0000deadbeef-0000000000000000", "00x1deadbeef-0000000000000001", "0001deadbeef-000000000000000٣"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := journal.ParsePosition(s)
		if err != nil {
			if !errors.Is(err, journal.ErrInvalid) || !p.IsZero() {
				t.Errorf("%q: got %v, %v; want ErrInvalid", s, p, err)
			}
			return
		}
		if p.String() != s || p.Seq > journal.MaxSeq {
			t.Errorf("%q is printed as %q", s, p)
		}
		for _, q := range []journal.Position{{}, {Epoch: "0001deadbeef", Seq: 7}} {
			if got, text := p.Compare(q), compareText(s, q.String()); got != text {
				t.Errorf("%q and %q: got %d, as text %d", s, q, got, text)
			}
		}
	})
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Commits travel between processes and are kept in exports: what is decoded is encoded
// as JSON that decodes to the same.
func FuzzCommitJSON(f *testing.F) {
	at := journal.Position{Epoch: "0001deadbeef", Seq: 7}
	for _, v := range []any{
		journal.Commit{Space: "user:1", Now: time.Unix(1, 2000).UTC(), Actor: "system", Checks: []journal.Check{{Key: "k", At: at}, {Stream: "s"}},
			Events: []journal.Event{{Stream: "s", Type: "s.made", Refs: []string{"r"}, Data: json.RawMessage(`{"a":[1,2.50,"é"]}`)}},
			Writes: []journal.Write{{Key: "k", Value: json.RawMessage(`null`)}, {Key: "l", Expires: time.Unix(9, 0).UTC(), Notify: true}}},
		journal.Chunk{Head: journal.Head{Space: "user:1", Oldest: at, Last: at, Epochs: []journal.Epoch{{Name: at.Epoch, First: 1, Last: 7}}},
			Records: []journal.Record{{Key: "k", Value: json.RawMessage(`1`), Version: at}}, Done: true},
		journal.Broadcast{Origin: "store_1", Space: "user:1", Event: journal.Event{Stream: "s", Type: "s.progress"}},
	} {
		data, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"Checks":[{"at":"x"}]}`))
	f.Add([]byte(`{"Writes":[{"expires":"0000-00-00T00:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, typ := range []reflect.Type{reflect.TypeFor[journal.Commit](), reflect.TypeFor[journal.Chunk](), reflect.TypeFor[journal.Broadcast]()} {
			first, second := reflect.New(typ).Interface(), reflect.New(typ).Interface()
			if json.Unmarshal(data, first) != nil {
				continue
			}
			once, err := json.Marshal(first)
			if err != nil {
				t.Fatalf("%v: %s was read and cannot be written: %v", typ, data, err)
			}
			if err := json.Unmarshal(once, second); err != nil {
				t.Fatalf("%v: %s was written and cannot be read: %v", typ, once, err)
			}
			if twice, err := json.Marshal(second); err != nil || string(twice) != string(once) {
				t.Errorf("%v: %s\nbecomes %s\nthen    %s (%v)", typ, data, once, twice, err)
			}
			if c, ok := first.(*journal.Chunk); ok {
				if err := c.Validate(); err != nil && !errors.Is(err, journal.ErrInvalid) {
					t.Errorf("%s: got %v, want ErrInvalid", data, err)
				}
			}
		}
	})
}

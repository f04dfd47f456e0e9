package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/thole-dev/thole/journal"
)

func compact(data string) (string, error) {
	got, err := journal.CompactJSON("data", "", []byte(data), journal.MaxDepth)
	return string(got), err
}

func TestJSONIsKeptByteForByteButForWhiteSpaceBetweenTokens(t *testing.T) {
	for in, want := range map[string]string{
		` 1 `: "1", "\r\n\t-0.10E+5": "-0.10E+5", `{ "a" : [ 1 , 2 , { } , [ ] ] , "a" : "b  c" }`: `{"a":[1,2,{},[]],"a":"b  c"}`,
		`"<\u003c\/\u2028 \ud83d\ude00 \uD83D\uDE00 ü"`:            `"<\u003c\/\u2028 \ud83d\ude00 \uD83D\uDE00 ü"`,
		`[true,false,null,123456789012345678901234567890.10e-999]`: `[true,false,null,123456789012345678901234567890.10e-999]`,
	} {
		if got, err := compact(in); err != nil || got != want {
			t.Errorf("%s: got %s, %v; want %s", in, got, err, want)
		}
	}
	in := []byte(`{"a":1}`)
	if out, err := journal.CompactJSON("data", "", in, 1); err != nil || &out[0] != &in[0] {
		t.Error("compact data was copied")
	}
}

func TestWhatIsNotJSONIsRefused(t *testing.T) {
	for _, bad := range []string{"", " ", "x", "1 2", "01", "1.", ".1", "1e", "-", "+1", "tru", "nulll", "'a'", `"`, `"\`, `"a`, `"\x"`, `"\u12"`, `"\u12g4"`,
		"\"\t\"", "\"\x00\"", "\"\xff\"", "\"\xed\xa0\x80\"", "\"\xc0\x80\"", `[`, `]`, `[1`, `[1,`, `[1,]`, `[,1]`, `[1 2]`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`,
		`{a:1}`, `{"a" 1}`, `{1:1}`, `{"a":1]`, `[1}`, "\ufeff1", "1\v", "NaN",
		strings.Repeat("[", 129) + strings.Repeat("]", 129), strings.Repeat(`{"a":`, 100_000), "1e1001", "1e-1001", strings.Repeat("1", 1001)} {
		if got, err := compact(bad); !errors.Is(err, journal.ErrInvalid) || got != "" {
			t.Errorf("%.40q: got %.40q, %v; want ErrInvalid", bad, got, err)
		}
	}
	if _, err := compact(strings.Repeat("[", 128) + strings.Repeat("]", 128)); err != nil {
		t.Errorf("128 levels: %v", err)
	}
	if _, err := compact(`"` + strings.Repeat("a", journal.MaxValueBytes) + `"`); !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("a large value: got %v, want ErrTooLarge", err)
	}
}

func TestHalfASurrogatePairIsRefusedAndReadWhereItIsStored(t *testing.T) {
	for _, half := range []string{`"\ud800"`, `"\udc00"`, `"\uD800\uD800"`, `"\udc00\ud800"`, `"\ud800x"`, `"\ud800\n"`, `{"\udfff":1}`} {
		if _, err := compact(half); !errors.Is(err, journal.ErrInvalid) || !strings.Contains(err.Error(), "surrogate") {
			t.Errorf("%s: got %v, want ErrInvalid", half, err)
		}
		if err := journal.CheckStoredJSON("data", "", []byte(half), journal.MaxDepth); err != nil {
			t.Errorf("%s, stored: %v", half, err)
		}
	}
}

func TestStoredJSONIsMended(t *testing.T) {
	long := strings.Repeat("9", 1001)
	for in, want := range map[string]string{
		`"\ud800"`:                          `"\ufffd"`,
		`["a\udc00\uD800","é\ud83d\ude00"]`: `["a\ufffd\ufffd","é\ud83d\ude00"]`,
		`"\ud800\uD83D\uDE00\\ud800\udfff"`: `"\ufffd\uD83D\uDE00\\ud800\ufffd"`,
		`{"\udfff": 1}`:                     `{"\ufffd":1}`,
		`{"n":[1e9999, -2E-1001 ,1e1000]}`:  `{"n":["1e9999","-2E-1001",1e1000]}`,
		`[` + long + `,0.` + long + `]`:     `["` + long + `","0.` + long + `"]`,
		`1e999999999999999999999`:           `"1e999999999999999999999"`,
		`"1e9999"`:                          `"1e9999"`,
		`"e1234`:                            `"e1234`, // not JSON
		`"\ud800`:                           `"\ud800`,
		``:                                  ``,
	} {
		before := []byte(in)
		got := journal.MendJSON(before)
		if string(got) != want {
			t.Errorf("%.60s: got %.60s, want %.60s", in, got, want)
		}
		if string(before) != in {
			t.Errorf("%.60s was changed", in)
		}
	}
	if in := []byte(`{"at":"2026-01-02","n":12345,"e":"e1234"}`); &journal.MendJSON(in)[0] != &in[0] {
		t.Error("data that needs no mending was copied")
	}
}

// encoding/json accepts what CompactJSON accepts, and compacts it to the same bytes;
// what only encoding/json accepts exceeds one of our bounds.
func FuzzCompactJSON(f *testing.F) {
	for _, s := range []string{`1`, ` {"a" : [1, -2.5e3, "x\u00e9\ud83d\ude00", null, true]} `, `"\ud800"`, "[[[", `{"a":1,"a":2}`, "\"\xff\"", `"\/"`, "-0", "1e999", "[1,]", `{"a":"\ud800\ud800","b":-1.5e+1001}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		err := journal.CheckStoredJSON("data", "", data, journal.MaxEventDepth)
		valid := json.Valid(data) && bytes.Equal(data, bytes.ToValidUTF8(data, nil)) && journal.JSONDepth(data) <= journal.MaxEventDepth && len(data) <= journal.MaxValueBytes
		if (err == nil) != valid {
			t.Fatalf("%q: got %v, want valid: %v", data, err, valid)
		}
		if mended := journal.MendJSON(data); valid {
			if _, err := journal.CompactJSON("data", "", mended, journal.MaxEventDepth); err != nil {
				t.Fatalf("%q is mended to %q: %v", data, mended, err)
			}
		}
		got, err := journal.CompactJSON("data", "", data, journal.MaxEventDepth)
		if !bytes.Equal(data, before) {
			t.Fatalf("%q was changed to %q", before, data)
		}
		if err != nil {
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, data); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%q: got %q, want %q, %v", data, got, want.Bytes(), err)
		}
	})
}

// TestEveryByteOfALongStringIsChecked looks at each byte at each place in a string that
// is long enough to be read in steps of eight.
func TestEveryByteOfALongStringIsChecked(t *testing.T) {
	for at := range 20 {
		for c := range 256 {
			data := []byte(`"` + strings.Repeat("x", 20) + `"`)
			data[1+at] = byte(c)
			want := json.Valid(data) && utf8.Valid(data)
			if err := journal.CheckJSON("value", data); (err == nil) != want {
				t.Errorf("CheckJSON of %q = %v, want valid: %v", data, err, want)
			}
		}
	}
}

package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/thole-dev/thole"
)

type sample struct {
	Name  string            `json:"name"`
	N     int               `json:"n"`
	Big   int64             `json:"big"`
	F     float64           `json:"f"`
	On    bool              `json:"on"`
	At    thole.Position    `json:"at"`
	Time  time.Time         `json:"time"`
	Raw   json.RawMessage   `json:"raw"`
	Num   json.Number       `json:"num"`
	Opt   *string           `json:"opt"`
	Map   map[string]int    `json:"map"`
	List  []sample          `json:"list"`
	Raws  []json.RawMessage `json:"raws"`
	inner                   //
}

type inner struct {
	Deep string `json:"deep"`
}

// What the strict walk accepts, encoding/json accepts too, and no body makes
// either of them panic.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"name":"a","n":1,"list":[{"list":[{"n":2}]},{}],"map":{"a":1,"b":2},"raw":{"x":[1,"]"]},"deep":"d"}`,
		`{"n":1.5}`, `{"big":1e99}`, `{"at":"x"}`, `{"time":"2026-01-01T00:00:00Z","num":1.5,"opt":null}`,
		`{"na\u006de":"\"}\\"}`, ` [ ] `, `{"raws":[1,{"a":[]},"x\\\"",null,true]}`, `{"list":[[]]}`, `{"x":1}`, `"`, `{"name":`, `nul`, `1`, `-`,
	} {
		f.Add([]byte(s))
	}
	s := compile(reflect.TypeFor[sample]())
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want sample
		err := decode(data, &got, s)
		if err != nil {
			if !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("decode(%q) = %v, want ErrInvalid", data, err)
			}
			return
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Errorf("decode took %q, encoding/json did not: %v", data, err)
		}
	})
}

func TestEveryPartOfABodyIsCheckedByName(t *testing.T) {
	s := compile(reflect.TypeFor[sample]())
	for body, field := range map[string]string{
		`{"list":[{},{"list":[{"n":"1"}]}]}`:       "list[1].list[0].n",
		`{"map":{"a":1,"b":"2"}}`:                  "map.b",
		`{"raw":{"anything":[1]},"deep":7}`:        "deep",
		`{"na\u006de":7}`:                          "name",
		`{"raws":[{"a":"]}"},1],"on":"yes"}`:       "on",
		`{"list":{}}`:                              "list",
		`{"opt":5}`:                                "opt",
		`{"big":9223372036854775808}`:              "big",
		`{"num":"x"}`:                              "num",
		`{"f":true}`:                               "f",
		`{"time":"2026"}`:                          "time",
		`{"inner":{}}`:                             "inner",
		`{"name":"a","name":{}}`:                   "name",
		` { "name" : "a" , "n" : 1 , "zzz" : 1 } `: "zzz",
	} {
		var v sample
		err := decode([]byte(body), &v, s)
		var fe *fieldError
		if !errors.As(err, &fe) || fe.field != field {
			t.Errorf("decode(%s) = %v, want an error of %s", body, err, field)
		}
	}
}

func FuzzTokensFromOutside(f *testing.F) {
	for _, s := range []string{"", "1", "1YT0K", "bG9jay9hL293bmVyQDAwMDFkZWFkYmVlZi0wMDAwMDAwMDAwMDAwMDAx.AAECAwQFBgcICQoLDA0ODw", "bG9jay9hQDAwMDFkZWFkYmVlZi0wMDAwMDAwMDAwMDAwMDAx", "@", "x@%zz", `"0001deadbeef-0000000000000001"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if at, err := parseCompound(s); err != nil && !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("parseCompound(%q) = %v, %v", s, at, err)
		}
		fence, err := parseFence(s)
		if err != nil && !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("parseFence(%q) = %v", s, err)
		}
		if proof := fence.Proof(); err == nil && proof != "" {
			if again, err := parseFence(proof); err != nil || !again.Is(fence) || again.Proof() != proof {
				t.Errorf("fence %v comes back as %v, %v", fence, again, err)
			}
		}
		if _, err := parseTag(s); err != nil && !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("parseTag(%q) = %v", s, err)
		}
	})
}

func TestEveryCodeHasOneStatus(t *testing.T) {
	statuses := map[string]int{}
	for _, k := range kinds() {
		p := problemOf(fmt.Errorf("x: %w", k.err), asItIs)
		if p.Code != k.code || p.Status != k.status {
			t.Errorf("%v is %d %s, want %d %s as in the table", k.err, p.Status, p.Code, k.status, k.code)
		}
		if had, ok := statuses[p.Code]; ok && had != p.Status {
			t.Errorf("%s is %d and %d", p.Code, had, p.Status)
		}
		statuses[p.Code] = p.Status
	}
	for err, want := range map[error]int{context.Canceled: 503, context.DeadlineExceeded: 503, thole.ErrCancelled: 409} {
		if p := problemOf(err, asItIs); p.Status != want || statuses[p.Code] != want {
			t.Errorf("%v is %d %s, want %d", err, p.Status, p.Code, want)
		}
	}
}

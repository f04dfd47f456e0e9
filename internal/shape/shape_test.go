package shape

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

type sample struct {
	Name  string            `json:"name,omitempty" min:"1" max:"20"`
	N     int               `json:"n,omitempty"`
	Big   int64             `json:"big,omitempty"`
	F     float64           `json:"f,omitempty" default:"30" min:"0.5" max:"300" doc:"seconds to wait"`
	On    bool              `json:"on,omitempty"`
	Mode  string            `json:"mode,omitempty" enum:"fast|slow"`
	Time  time.Time         `json:"time,omitzero"`
	Raw   json.RawMessage   `json:"raw,omitempty"`
	Num   json.Number       `json:"num,omitempty"`
	Opt   *string           `json:"opt,omitempty"`
	Map   map[string]int    `json:"map,omitempty"`
	List  []sample          `json:"list,omitempty"`
	Raws  []json.RawMessage `json:"raws,omitempty"`
	Bytes []byte            `json:"bytes,omitempty"`
	Few   []string          `json:"few,omitempty" min:"1" max:"2"`
	inner                   //
}

type inner struct {
	Deep string `json:"deep,omitempty"`
}

func sampleShape() *Shape { return NewSet().Of(reflect.TypeFor[sample]()) }

func TestEveryPartOfABodyIsCheckedByItsPointer(t *testing.T) {
	s := sampleShape()
	for body, want := range map[string]string{
		`{"list":[{},{"list":[{"n":"1"}]}]}`:       "/list/1/list/0/n: is a string, an integer is expected",
		`{"map":{"a":1,"b":"2"}}`:                  "/map/b: is a string",
		`{"map":{"a/b":"2"}}`:                      "/map/a~1b: is a string",
		`{"raw":{"anything":[1]},"deep":7}`:        "/deep: is a number",
		`{"na\u006de":7}`:                          "/name: is a number",
		`{"raws":[{"a":"]}"},1],"on":"yes"}`:       "/on: is a string",
		`{"list":{}}`:                              "/list: is an object, an array is expected",
		`{"f":"1h"}`:                               "/f: is a string, a number is expected: seconds to wait",
		`{"opt":5}`:                                "/opt: is a number",
		`{"opt":null}`:                             "/opt: is null, a string is expected; leave it out",
		`{"list":[null]}`:                          "/list/0: is null, an object is expected",
		`{"big":9223372036854775808}`:              "/big: 9223372036854775808 is out of range",
		`{"n":1.5}`:                                "/n: 1.5 is not a whole number",
		`{"num":"x"}`:                              "/num: is a string",
		`{"f":true}`:                               "/f: is a boolean",
		`{"f":0}`:                                  "/f: 0 is not from 0.5 to 300",
		`{"f":1e999}`:                              "/f: 1e999 is out of range",
		`{"time":"2026"}`:                          "/time: \"2026\" is not a time",
		`{"time":"0001-01-01T00:00:00Z"}`:          "/time: is the first moment",
		`{"inner":{}}`:                             "/inner: `inner` is not known here; known are `name`",
		`{"Name":"x"}`:                             "/Name: `Name` is not known",
		`{"name":"a","name":"b"}`:                  "/name: is there twice",
		`{"raw":{"a":1,"a":2}}`:                    "/raw/a: is there twice",
		`{"name":""}`:                              "/name: 0 characters is not from 1 to 20",
		`{"mode":""}`:                              "/mode: \"\" is not one of fast, slow",
		`{"few":[]}`:                               "/few: 0 items is not from 1 to 2",
		`{"bytes":"?"}`:                            "/bytes: ",
		`{"name":"\ud800"}`:                        "/name: is not Unicode",
		`{"raw":"\udc00\ud800"}`:                   "/raw: is not Unicode",
		"{\"raw\":\"\xff\"}":                       "/raw: is not Unicode",
		` { "name" : "a" , "n" : 1 , "zzz" : 1 } `: "/zzz: `zzz` is not known",
		`{} {}`:         "is followed by something else",
		`{} x`:          "is followed by",
		`{"name":`:      "is not JSON",
		`nul`:           "is not JSON",
		`[]`:            "is an array, an object is expected",
		`null`:          "is null, an object is expected",
		``:              "is not JSON",
		`{"n":01}`:      "is not JSON",
		`{"a":1,}`:      "/a: `a` is not known",
		`{"n":1,}`:      "is not JSON",
		"{\"n\":1}\x00": "is followed by",
	} {
		var v sample
		err := s.Decode([]byte(body), &v)
		var e *Error
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", body, err, want)
		}
	}
}

func TestAPartOfAValueHasAPointer(t *testing.T) {
	s := sampleShape()
	v := sample{List: []sample{{}, {Few: []string{"a", "b"}, Raw: json.RawMessage("1")}}}
	for want, part := range map[string]any{
		"/name": &v.Name, "/deep": &v.Deep, "/opt": &v.Opt, "/list/1": &v.List[1], "/list/1/time": &v.List[1].Time,
		"/list/1/few/0": &v.List[1].Few[0], "": &v,
	} {
		if got := s.PointerTo(&v, part); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := s.PointerTo(&v, new(string)); got != "" {
		t.Errorf("what is elsewhere has the pointer %q", got)
	}
}

func TestWhatIsLeftOutHasItsDefault(t *testing.T) {
	var v sample
	if err := sampleShape().Decode([]byte(`{"raw":null,"num":1.50,"raws":[null,{"a":[]}],"map":{"x":7},"time":"2026-01-31T12:00:00.5Z"}`), &v); err != nil {
		t.Fatal(err)
	}
	if v.F != 30 || string(v.Raw) != "null" || v.Num != "1.50" || v.Map["x"] != 7 || len(v.Raws) != 2 || v.Time.IsZero() {
		t.Errorf("got %+v", v)
	}
}

type strict struct {
	Must string          `json:"must"`
	Data json.RawMessage `json:"data"`
	May  []struct {
		N int `json:"n"`
	} `json:"may,omitempty"`
}

func TestWhatMayNotBeLeftOutIsMissed(t *testing.T) {
	s := NewSet().Of(reflect.TypeFor[strict]())
	for body, want := range map[string]string{
		`{"must":"","data":null}`: "",
		`{"data":1}`:              "/must: is missing",
		`{"must":"x"}`:            "/data: is missing",
		`{"must":"x","data":1,"may":[{"n":1},{}]}`: "/may/1/n: is missing",
		`{"must":null,"data":1}`:                   "/must: is null, a string is expected",
	} {
		err := s.Decode([]byte(body), new(strict))
		if got := errorText(err); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What is accepted fits the schema, encoding/json reads it too, and nothing panics.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"name":"a","n":1,"list":[{"list":[{"n":2}]},{}],"map":{"a":1,"b":2},"raw":{"x":[1,"]"]},"deep":"d"}`,
		`{"n":1.5}`, `{"big":1e99}`, `{"time":"2026-01-01T00:00:00Z","num":1.5,"opt":null}`,
		`{"na\u006de":"\"}\\"}`, ` [ ] `, `{"raws":[1,{"a":[]},"x\\\"",null,true]}`, `{"list":[[]]}`, `{"x":1}`, `"`, `{"name":`, `nul`, `1`, `-`,
	} {
		f.Add([]byte(s))
	}
	s := sampleShape()
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want sample
		err := s.Decode(data, &got)
		if err != nil {
			if !errors.As(err, new(*Error)) {
				t.Errorf("Decode(%q) = %v, want an *Error", data, err)
			}
			return
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Errorf("Decode took %q, encoding/json did not: %v", data, err)
		}
	})
}

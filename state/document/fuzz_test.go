package document

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/thole-dev/thole"
)

func FuzzDiffLeadsFromOneValueToTheOther(f *testing.F) {
	f.Add(`{"a":[1,2,{"b":null}],"":0}`, `{"a":[2,{"b":1}],"c~/d":"x"}`)
	f.Add(`[1,2,3,4]`, `[1,4]`)
	f.Add(`null`, `{"a":{}}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		from, err := decode("a", json.RawMessage(a))
		if err != nil {
			return
		}
		to, err := decode("b", json.RawMessage(b))
		if err != nil {
			return
		}
		ops := diff(from, to)
		got, err := patch(from, ops, false)
		if err != nil {
			t.Fatalf("%v does not apply: %v", ops, err)
		}
		text, err := encode(got)
		if err != nil {
			t.Fatal(err)
		}
		if want, _ := encode(to); string(text) != string(want) {
			t.Errorf("got %s, want %s", text, want)
		}
	})
}

func FuzzPatchesFromOutsideFailCleanly(f *testing.F) {
	f.Add(`{"a":[1]}`, `[{"op":"copy","from":"","path":"/a/-"},{"op":"move","from":"/a/0","path":"/b"}]`)
	f.Add(`[]`, `[{"op":"test","path":"","value":null}]`)
	f.Add(`"s"`, `[{"op":"remove","path":""},{"op":"add","path":"/x","value":1}]`)
	f.Fuzz(func(t *testing.T, value, text string) {
		v, err := decode("value", json.RawMessage(value))
		if err != nil {
			return
		}
		ops, err := parsePatch(json.RawMessage(text))
		if err == nil {
			if v, err = patch(v, ops, false); err == nil {
				_, err = encode(v)
			}
		}
		if err != nil && !errors.Is(err, thole.ErrInvalid) && !errors.Is(err, thole.ErrConflict) && !errors.Is(err, thole.ErrTooLarge) {
			t.Errorf("%s: got %v, want ErrInvalid, ErrConflict or ErrTooLarge", text, err)
		}
	})
}

package rest

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/thole-dev/thole"
)

// bodyTimeout bounds how long a client may take to send a body.
const bodyTimeout = 30 * time.Second

// readBody reads the whole body, at most limit bytes of it.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // not every writer can: then there is no bound
	defer rc.SetReadDeadline(time.Time{})
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, fmt.Errorf("%w: the body has more than %d bytes", thole.ErrTooLarge, limit)
	case err != nil:
		return nil, fmt.Errorf("%w: the body could not be read: %v", thole.ErrInvalid, err)
	}
	return data, nil
}

// decode reads a JSON body into v, which points to a struct. Everything that v
// does not know, or knows as another type, is ErrInvalid and named by its path.
func decode(data []byte, v any) error {
	if err := wellFormed(data); err != nil {
		return err
	}
	if err := conform("", data, reflect.TypeOf(v).Elem()); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return invalid("body", "%v", err)
	}
	return nil
}

// wellFormed reports a body that is not one JSON value of sane depth.
func wellFormed(data []byte) error {
	switch {
	case len(data) == 0:
		return invalid("body", "is empty; a JSON object is expected")
	case !utf8.Valid(data):
		return invalid("body", "is not UTF-8")
	case thole.JSONDepth(data) > thole.MaxDepth:
		return invalid("body", "nests deeper than %d levels", thole.MaxDepth)
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(data, new(json.RawMessage)); errors.As(err, &syntax) {
		return invalid("body", "is not JSON: %v at byte %d", syntax, syntax.Offset)
	} else if err != nil {
		return invalid("body", "is not JSON: %v", err)
	}
	return nil
}

// conform reports the first part of data that t cannot take. encoding/json is
// more lenient (it ignores unknown names, and letter case in known ones) and
// does not say where in a list it was.
func conform(path string, data json.RawMessage, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	got := shape(data)
	if got == "number" && t == reflect.TypeFor[json.Number]() {
		return nil
	}
	if got == "null" && path != "" || t == reflect.TypeFor[json.RawMessage]() {
		return nil
	}
	name := path
	if name == "" {
		name = "body"
	}
	want := ""
	switch p := reflect.New(t).Interface().(type) {
	case encoding.TextUnmarshaler:
		if want = "string"; got == want {
			if err := json.Unmarshal(data, p); err != nil {
				return invalid(name, "%v", err)
			}
			return nil
		}
	case json.Unmarshaler:
		if err := json.Unmarshal(data, p); err != nil {
			return invalid(name, "%v", err)
		}
		return nil
	default:
		want = shapeOf(t)
	}
	if want == "" { // any
		return nil
	}
	if got != want {
		return invalid(name, "is %s, %s is expected", article(got), article(want))
	}
	switch t.Kind() {
	case reflect.Struct:
		return conformStruct(path, data, t)
	case reflect.Slice:
		var items []json.RawMessage
		json.Unmarshal(data, &items) // is an array: cannot fail
		for i, item := range items {
			if err := conform(fmt.Sprintf("%s[%d]", path, i), item, t.Elem()); err != nil {
				return err
			}
		}
	case reflect.Map:
		return eachMember(data, func(key string, value json.RawMessage) error {
			return conform(join(path, key), value, t.Elem())
		})
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Int32:
		if err := json.Unmarshal(data, reflect.New(t).Interface()); err != nil {
			return invalid(name, "%s is not a whole number in range", data)
		}
	}
	return nil
}

func conformStruct(path string, data json.RawMessage, t reflect.Type) error {
	fields := make(map[string]reflect.Type)
	jsonFields(t, fields)
	return eachMember(data, func(key string, value json.RawMessage) error {
		field, ok := fields[key]
		if !ok {
			return invalid(join(path, key), "is not known here")
		}
		return conform(join(path, key), value, field)
	})
}

// eachMember visits the members of an object in the order of their names, so
// that one request always gets one answer.
func eachMember(data json.RawMessage, visit func(string, json.RawMessage) error) error {
	var members map[string]json.RawMessage
	json.Unmarshal(data, &members) // is an object: cannot fail
	keys := make([]string, 0, len(members))
	for key := range members {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		if err := visit(key, members[key]); err != nil {
			return err
		}
	}
	return nil
}

// jsonFields collects the JSON names of t's fields, embedded structs included.
func jsonFields(t reflect.Type, into map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			jsonFields(embedded, into)
		case !f.IsExported() || name == "-":
		case name == "":
			into[f.Name] = f.Type
		default:
			into[name] = f.Type
		}
	}
}

func join(path, key string) string {
	if len(key) > 80 {
		key = key[:80] + "…"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func shape(data json.RawMessage) string {
	for _, c := range data {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case '{':
			return "object"
		case '[':
			return "array"
		case '"':
			return "string"
		case 't', 'f':
			return "boolean"
		case 'n':
			return "null"
		}
		break
	}
	return "number"
}

func shapeOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "string"
		}
		return "array"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64, reflect.Float64:
		return "number"
	}
	return ""
}

func article(shape string) string {
	switch shape {
	case "null":
		return shape
	case "object", "array":
		return "an " + shape
	}
	return "a " + shape
}

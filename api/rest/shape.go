package rest

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// shape is what JSON a Go type takes: encoding/json's view of it, but strict.
// encoding/json ignores unknown names, and letter case in known ones, and does
// not say where in a list it was. It is compiled once for each route.
type shape struct {
	kind   string            // object, array, string, number or boolean; "": anything
	fields map[string]*shape // of a struct
	elem   *shape            // of a list's or a map's values
	try    reflect.Type      // a value must also unmarshal into it; nil: it need not
}

// compile returns t's shape.
func compile(t reflect.Type) *shape { return compileOnce(t, make(map[reflect.Type]*shape)) }

func compileOnce(t reflect.Type, done map[reflect.Type]*shape) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s := done[t]; s != nil { // also of a type that holds itself
		return s
	}
	s := new(shape)
	done[t] = s
	ptr := reflect.New(t).Interface()
	_, isText := ptr.(encoding.TextUnmarshaler)
	_, isJSON := ptr.(json.Unmarshaler)
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
	case t == reflect.TypeFor[json.Number]():
		s.kind = "number"
	case isText:
		s.kind, s.try = "string", t
	case isJSON:
		s.try = t
	default:
		s.ofKind(t, done)
	}
	return s
}

func (s *shape) ofKind(t reflect.Type, done map[reflect.Type]*shape) {
	switch t.Kind() {
	case reflect.Struct:
		s.kind, s.fields = "object", make(map[string]*shape)
		s.addFields(t, done)
	case reflect.Map:
		s.kind, s.elem = "object", compileOnce(t.Elem(), done)
	case reflect.Slice:
		s.kind, s.elem = "array", compileOnce(t.Elem(), done)
	case reflect.String:
		s.kind = "string"
	case reflect.Bool:
		s.kind = "boolean"
	case reflect.Float64:
		s.kind = "number"
	case reflect.Int, reflect.Int64:
		s.kind, s.try = "number", t
	}
}

// addFields adds the JSON names of t's fields, embedded structs included.
func (s *shape) addFields(t reflect.Type, done map[reflect.Type]*shape) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			s.addFields(f.Type, done)
		case !f.IsExported() || name == "-":
		case name == "":
			s.fields[f.Name] = compileOnce(f.Type, done)
		default:
			s.fields[name] = compileOnce(f.Type, done)
		}
	}
}

// zeroTime refuses what is to Go a time that is absent, and so would mean never.
const zeroTime = "is the first moment of the year 1; leave it out for none"

// walker goes once over valid JSON and a shape together.
type walker struct {
	data []byte
	at   int
}

// value checks the value at the walker's place and passes it. path is where it
// is in the body; "" is the body itself.
func (w *walker) value(path string, s *shape) error {
	w.space()
	start, got := w.at, w.kind()
	if s == nil || s.kind == "" && s.try == nil || got == "null" && path != "" {
		w.skip()
		return nil
	}
	name := path
	if name == "" {
		name = "body"
	}
	if s.kind != "" && got != s.kind {
		return invalid(name, "is %s, %s is expected", article(got), article(s.kind))
	}
	switch {
	case got == "object" && s.try == nil:
		return w.object(path, s)
	case got == "array" && s.try == nil:
		return w.array(path, s)
	}
	w.skip()
	if s.try == nil {
		return nil
	}
	v := reflect.New(s.try).Interface()
	if err := json.Unmarshal(w.data[start:w.at], v); err != nil {
		if got == "number" {
			return invalid(name, "%.40s is not a whole number in range", w.data[start:w.at])
		}
		if s.try == reflect.TypeFor[time.Time]() {
			return invalid(name, "%.60s is not a time such as \"2026-01-31T12:00:00Z\"", w.data[start:w.at])
		}
		return invalid(name, "%v", err)
	}
	if t, ok := v.(*time.Time); ok && t.IsZero() {
		return invalid(name, zeroTime)
	}
	return nil
}

func (w *walker) object(path string, s *shape) error {
	for w.at++; ; {
		if w.space(); w.data[w.at] == '}' {
			w.at++
			return nil
		}
		key := w.key()
		w.space()
		w.at++ // the colon
		field, known := s.fields[key]
		if s.fields == nil {
			field, known = s.elem, true
		}
		if !known {
			return invalid(join(path, key), "is not known here")
		}
		at := key // the path is put together only where it may be needed
		if path != "" {
			at = join(path, key)
		}
		if err := w.value(at, field); err != nil {
			return err
		}
		if w.space(); w.data[w.at] == ',' {
			w.at++
		}
	}
}

func (w *walker) array(path string, s *shape) error {
	w.at++
	for i := 0; ; i++ {
		if w.space(); w.data[w.at] == ']' {
			w.at++
			return nil
		}
		if err := w.value(fmt.Sprintf("%s[%d]", path, i), s.elem); err != nil {
			return err
		}
		if w.space(); w.data[w.at] == ',' {
			w.at++
		}
	}
}

func (w *walker) space() {
	for w.at < len(w.data) && strings.IndexByte(" \t\r\n", w.data[w.at]) >= 0 {
		w.at++
	}
}

// key passes a name and returns it.
func (w *walker) key() string {
	start := w.at
	w.skipString()
	raw := w.data[start:w.at]
	for _, c := range raw {
		if c == '\\' {
			var s string
			json.Unmarshal(raw, &s) // is a string: cannot fail
			return s
		}
	}
	return string(raw[1 : len(raw)-1])
}

// skip passes a value, whatever it is.
func (w *walker) skip() {
	depth := 0
	for w.at < len(w.data) {
		switch c := w.data[w.at]; c {
		case '"':
			w.skipString()
			if depth == 0 {
				return
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				w.at++
				return
			}
			if depth < 0 { // the end of what a number or a word is in
				return
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return
			}
		}
		w.at++
	}
}

func (w *walker) skipString() {
	for w.at++; w.data[w.at] != '"'; w.at++ {
		if w.data[w.at] == '\\' {
			w.at++
		}
	}
	w.at++
}

// kind is what the value at the walker's place is.
func (w *walker) kind() string {
	switch w.data[w.at] {
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
	return "number"
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

func article(kind string) string {
	switch kind {
	case "null":
		return kind
	case "object", "array":
		return "an " + kind
	}
	return "a " + kind
}

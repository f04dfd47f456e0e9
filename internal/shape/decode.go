package shape

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Error reports a part of a JSON text that does not have its shape.
type Error struct {
	Pointer string // JSON Pointer to the part (RFC 6901); "": the whole
	Reason  string
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return e.Reason
	}
	return e.Pointer + ": " + e.Reason
}

// Decode decodes data, one JSON value of the shape, into v, a pointer to the shape's
// type. Missing members get their defaults. It returns an *Error if data is not JSON or
// not Unicode, has a duplicate or unknown name, a value of another kind, null where the
// kind is not Any, or a value out of bounds, or lacks a required member. It does not
// retain data.
func (s *Shape) Decode(data []byte, v any) error {
	if err := s.Check(data); err != nil {
		return err
	}
	s.fill(reflect.ValueOf(v).Elem())
	if err := json.Unmarshal(data, v, decoding); err != nil {
		return explain(err)
	}
	return nil
}

// Check returns an *Error if data is not one JSON value of the shape. Only Decode
// checks whether texts and numbers fit their Go types.
func (s *Shape) Check(data []byte) error {
	d, _ := decoders.Get().(*jsontext.Decoder)
	if d == nil {
		d = new(jsontext.Decoder)
	}
	defer func() {
		d.Reset(nothing)
		decoders.Put(d)
	}()
	d.Reset(bytes.NewBuffer(data))
	if err := s.check(d, nil); err != nil {
		return explain(err)
	}
	if k := d.PeekKind(); k != 0 {
		return &Error{Reason: "is followed by something else"}
	} else if len(bytes.TrimSpace(d.UnreadBuffer())) > 0 {
		return &Error{Reason: "is followed by what is not JSON"}
	}
	return nil
}

var (
	decoders sync.Pool // of *jsontext.Decoder
	nothing  = strings.NewReader("")
)

// decoding are options for types that the library would decode from different JSON.
var decoding = json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(func(d *jsontext.Decoder, n *stdjson.Number) error {
		v, err := d.ReadValue()
		*n = stdjson.Number(v)
		return err
	}),
	json.UnmarshalFromFunc(func(d *jsontext.Decoder, t *time.Time) error {
		at := d.StackPointer()
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		text, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			return err
		}
		if *t, err = parseTime(string(text)); err != nil {
			return &Error{string(at), err.Error()}
		}
		return nil
	}),
)) // never changed

// parseTime parses an RFC 3339 time. It refuses Go's zero time, which would mean
// "none".
func parseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	switch {
	case err != nil:
		return t, fmt.Errorf("%.60q is not a time such as 2026-01-31T12:00:00Z", s)
	case t.IsZero():
		return t, errors.New("is the first moment of the year 1; leave it out for none")
	}
	return t, nil
}

// fill sets the fields of v that have a default.
func (s *Shape) fill(v reflect.Value) {
	for _, f := range s.Fields {
		if f.Default != "" {
			if err := f.Parse(f.Default, v.FieldByIndex(f.Index)); err != nil {
				panic(fmt.Sprintf("shape: the default of %s %v", f.Name, err))
			}
		}
	}
}

// check reads the next value of d and checks that it has the shape and, if f is not
// nil, is within f's bounds.
func (s *Shape) check(d *jsontext.Decoder, f *Field) error {
	kind := d.PeekKind()
	if s.Kind == Any || kind == 0 { // 0: an error, which SkipValue returns
		return d.SkipValue()
	}
	if got := kindOf(kind); got != s.Kind && !(got == Number && s.Kind == Integer) {
		if err := d.SkipValue(); err != nil {
			return err
		}
		if got == "null" && f != nil && !f.Required {
			return wrong(d, "is null, %s is expected; leave it out if there is none", article(s.Kind))
		}
		about := ""
		if f != nil && f.Doc != "" {
			about = ": " + f.Doc
		}
		return wrong(d, "is %s, %s is expected%s", article(got), article(s.Kind), about)
	}
	switch s.Kind {
	case Object:
		return s.checkObject(d)
	case Array:
		return s.checkArray(d, f)
	}
	bounded := f != nil && (f.Enum != nil || f.Min != nil || f.Max != nil)
	if s.Kind != Integer && !bounded {
		return d.SkipValue()
	}
	token, err := d.ReadToken()
	if err != nil {
		return err
	}
	if s.Kind == Integer && strings.ContainsAny(token.String(), ".eE") {
		return wrong(d, "%.40s is not a whole number", token.String())
	}
	if !bounded {
		return nil
	}
	if err := f.bounds(token.String()); err != nil {
		return wrong(d, "%v", err)
	}
	return nil
}

func (s *Shape) checkObject(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	var few [32]bool
	seen := few[:]
	if len(s.Fields) > len(few) {
		seen = make([]bool, len(s.Fields))
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		if s.Elem != nil {
			if err := s.Elem.check(d, nil); err != nil {
				return err
			}
			continue
		}
		i, known := s.byName[name.String()]
		if !known {
			return wrong(d, "%s", s.unknown(name.String()))
		}
		seen[i] = true
		if err := s.Fields[i].Shape.check(d, s.Fields[i]); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for i, f := range s.Fields {
		if f.Required && !seen[i] {
			return &Error{string(d.StackPointer().AppendToken(f.Name)), "is missing"}
		}
	}
	return nil
}

func (s *Shape) unknown(name string) string {
	names := make([]string, len(s.Fields))
	for i, f := range s.Fields {
		names[i] = f.Name
	}
	return Unknown(name, names)
}

// Unknown returns a message that a name is unknown and which names are known.
func Unknown(name string, known []string) string {
	if len(known) == 0 {
		return fmt.Sprintf("`%s` is not known here; nothing is", cut(name))
	}
	return fmt.Sprintf("`%s` is not known here; known are `%s`", cut(name), strings.Join(known, "`, `"))
}

func cut(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

func (s *Shape) checkArray(d *jsontext.Decoder, f *Field) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	n := 0
	for ; d.PeekKind() != ']' && d.PeekKind() != 0; n++ {
		if err := s.Elem.check(d, nil); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if f != nil && (f.Min != nil || f.Max != nil) {
		if err := f.within(float64(n), " items"); err != nil {
			return wrong(d, "%v", err)
		}
	}
	return nil
}

// bounds checks the text of a value against the field's enum, minimum and maximum.
func (f *Field) bounds(text string) error {
	if f.Enum != nil {
		for _, v := range f.Enum {
			if v == text {
				return nil
			}
		}
		return fmt.Errorf("%.40q is not one of %s", text, strings.Join(f.Enum, ", "))
	}
	if f.Min == nil && f.Max == nil {
		return nil
	}
	if f.Shape.Kind == String {
		return f.within(float64(utf8.RuneCountInString(text)), " characters")
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("%.40s is out of range", text)
	}
	return f.within(n, "")
}

func (f *Field) within(n float64, of string) error {
	if (f.Min == nil || n >= *f.Min) && (f.Max == nil || n <= *f.Max) {
		return nil
	}
	says := func(p float64) string { return strconv.FormatFloat(p, 'f', -1, 64) }
	switch {
	case f.Max == nil:
		return fmt.Errorf("%s%s is less than %s", says(n), of, says(*f.Min))
	case f.Min == nil:
		return fmt.Errorf("%s%s is more than %s", says(n), of, says(*f.Max))
	}
	return fmt.Errorf("%s%s is not from %s to %s", says(n), of, says(*f.Min), says(*f.Max))
}

func wrong(d *jsontext.Decoder, format string, args ...any) error {
	return &Error{string(d.StackPointer()), fmt.Sprintf(format, args...)}
}

// explain converts an error of the library to an *Error.
func explain(err error) error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		switch {
		case errors.Is(err, jsontext.ErrDuplicateName):
			return &Error{string(syntax.JSONPointer), "is there twice"}
		case strings.Contains(syntax.Err.Error(), "UTF-8") || strings.Contains(syntax.Err.Error(), "surrogate"):
			return &Error{string(syntax.JSONPointer), "is not Unicode: " + syntax.Err.Error()}
		}
		return &Error{"", fmt.Sprintf("is not JSON: %v at byte %d", syntax.Err, syntax.ByteOffset)}
	}
	var meaning *json.SemanticError
	if errors.As(err, &meaning) {
		reason := "does not fit"
		switch {
		case errors.Is(err, strconv.ErrRange):
			reason = fmt.Sprintf("%.40s is out of range", meaning.JSONValue)
		case meaning.Err != nil:
			reason = meaning.Err.Error()
		}
		return &Error{string(meaning.JSONPointer), reason}
	}
	return &Error{"", "is not JSON: " + err.Error()}
}

func kindOf(k jsontext.Kind) string {
	switch k {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Boolean
	case 'n':
		return "null"
	}
	return Number
}

func article(kind string) string {
	switch kind {
	case "null":
		return kind
	case Object, Array, Integer:
		return "an " + kind
	}
	return "a " + kind
}

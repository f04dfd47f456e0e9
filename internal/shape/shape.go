// Package shape describes the JSON of Go types. The strict decoding of requests and the
// JSON Schemas of the OpenAPI document both come from one description, made from the
// type and the tags of its fields, so that the two agree.
//
// A field's name is that of encoding/json. With omitempty or omitzero it may be left
// out. These tags say more:
//
//	doc:"what it is"          example:"a value"      default:"what is meant without it"
//	enum:"all|its|values"     min:"0.001" max:"30"   of a number; of a text or a list: its length
//	optional:"what is done without it", for a member that is always given, and may be left out
//	given:"always", for a member that records leave out and whatever is given holds
//
// A default is set if a member of the outermost object is missing.
package shape

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The kinds of JSON.
const (
	Any     = "" // any JSON, including null
	Object  = "object"
	Array   = "array"
	String  = "string"
	Integer = "integer"
	Number  = "number"
	Boolean = "boolean"
)

// Shape describes the JSON of a Go type.
type Shape struct {
	Type   reflect.Type
	Kind   string
	Doc    string
	Format string // the JSON Schema format of a string
	Fields []*Field
	Elem   *Shape // of the items of a list or the values of a map
	byName map[string]int
}

// Field is a member of an object, or a parameter.
type Field struct {
	Name         string
	Shape        *Shape
	Always       bool // every response has it
	Required     bool // every request must have it
	Doc, Example string
	Default      string // "": none
	Optional     string // what happens without it; "": not documented
	Enum         []string
	Min, Max     *float64
	Index        []int // for reflect.Value.FieldByIndex
}

// IsMap reports whether the shape is an object with arbitrary names.
func (s *Shape) IsMap() bool { return s.Kind == Object && s.Elem != nil }

// Set makes shapes and keeps one for each type. It is not safe for concurrent use; its
// shapes are.
type Set struct{ shapes map[reflect.Type]*Shape }

// NewSet returns a Set with the shapes of some standard types, and of the given ones,
// whose JSON is not what their Go kind suggests.
func NewSet(known ...*Shape) *Set {
	s := &Set{shapes: map[reflect.Type]*Shape{
		reflect.TypeFor[time.Time]():       {Type: reflect.TypeFor[time.Time](), Kind: String, Format: "date-time"},
		reflect.TypeFor[json.RawMessage](): {Type: reflect.TypeFor[json.RawMessage](), Kind: Any, Doc: "any JSON"},
		reflect.TypeFor[json.Number]():     {Type: reflect.TypeFor[json.Number](), Kind: Number},
		reflect.TypeFor[[]byte]():          {Type: reflect.TypeFor[[]byte](), Kind: String, Format: "byte", Doc: "base64"},
	}}
	for _, k := range known {
		s.shapes[k.Type] = k
	}
	return s
}

// Of returns the shape of t, or of the type that t points to. It panics if t has no
// JSON or a tag is malformed: both are bugs in the program.
func (set *Set) Of(t reflect.Type) *Shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s := set.shapes[t]; s != nil { // also while a recursive type is being described
		return s
	}
	s := &Shape{Type: t}
	set.shapes[t] = s
	ptr := reflect.New(t).Interface()
	_, isText := ptr.(encoding.TextUnmarshaler)
	_, isJSON := ptr.(json.Unmarshaler)
	switch kind := t.Kind(); {
	case isText:
		s.Kind = String
	case isJSON || kind == reflect.Interface:
	case kind == reflect.Struct:
		s.Kind, s.byName = Object, make(map[string]int)
		set.addFields(s, t, nil)
	case kind == reflect.Map:
		s.Kind, s.Elem = Object, set.Of(t.Elem())
	case kind == reflect.Slice:
		s.Kind, s.Elem = Array, set.Of(t.Elem())
	case kind == reflect.String:
		s.Kind = String
	case kind == reflect.Bool:
		s.Kind = Boolean
	case kind == reflect.Float32 || kind == reflect.Float64:
		s.Kind = Number
	case kind >= reflect.Int && kind <= reflect.Uint64:
		s.Kind = Integer
	default:
		panic(fmt.Sprintf("shape: no JSON stands for %v", t))
	}
	return s
}

// addFields adds the members for t's fields, including those of embedded structs.
func (set *Set) addFields(s *Shape, t reflect.Type, index []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(slices.Clone(index), i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
			continue
		case f.Anonymous && name == "":
			set.addFields(s, f.Type, at)
			continue
		case !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		field := set.Field(f)
		field.Name, field.Index = name, at
		kept := !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero")
		field.Always = kept || f.Tag.Get("given") == "always"
		field.Required = kept && field.Default == "" && field.Optional == ""
		s.byName[name] = len(s.Fields)
		s.Fields = append(s.Fields, field)
	}
}

// Field returns the description of f from its type and tags.
func (set *Set) Field(f reflect.StructField) *Field {
	out := &Field{
		Name: f.Name, Shape: set.Of(f.Type), Index: f.Index,
		Doc: f.Tag.Get("doc"), Example: f.Tag.Get("example"), Default: f.Tag.Get("default"), Optional: f.Tag.Get("optional"),
	}
	if enum := f.Tag.Get("enum"); enum != "" {
		out.Enum = strings.Split(enum, "|")
	}
	number := func(tag string) *float64 {
		text := f.Tag.Get(tag)
		if text == "" {
			return nil
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic(fmt.Sprintf("shape: %s: %s:%q is not a number", f.Name, tag, text))
		}
		return &n
	}
	out.Min, out.Max = number("min"), number("max")
	return out
}

// Lookup returns the member of that name, or nil.
func (s *Shape) Lookup(name string) *Field {
	if i, ok := s.byName[name]; ok {
		return s.Fields[i]
	}
	return nil
}

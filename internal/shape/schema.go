package shape

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// Schemas makes JSON Schemas (draft 2020-12) of what an API takes (requests) and gives
// (responses). Named structs have schemas of their own, to which others refer. A struct
// whose required members differ between requests and responses has two schemas; the
// name of that for requests ends in Input.
type Schemas struct {
	// Name returns the name of a struct's schema; "": the schema is inlined where it is
	// used.
	Name func(reflect.Type) string
	// At precedes the name in a reference.
	At string
	// Named has the schemas to which others refer, by name.
	Named map[string]any
}

// Given returns the schema of a shape in responses, or a reference to it.
func (g *Schemas) Given(s *Shape) map[string]any { return g.of(s, false) }

// Taken returns the schema of a shape in requests, or a reference to it.
func (g *Schemas) Taken(s *Shape) map[string]any { return g.of(s, true) }

// of is Taken if taken is set, else Given.
func (g *Schemas) of(s *Shape, taken bool) map[string]any {
	if s.Kind == Object && s.Elem == nil {
		name := g.Name(s.Type)
		if name == "" {
			return g.object(s, taken)
		}
		if taken && s.differs(make(map[*Shape]bool)) {
			name += "Input"
		}
		if _, done := g.Named[name]; !done {
			g.Named[name] = nil // for a recursive type
			g.Named[name] = g.object(s, taken)
		}
		return map[string]any{"$ref": g.At + name}
	}
	out := make(map[string]any)
	set(out, "type", s.Kind)
	set(out, "format", s.Format)
	set(out, "description", s.Doc)
	switch {
	case s.Kind == Array:
		out["items"] = g.of(s.Elem, taken)
	case s.IsMap():
		out["additionalProperties"] = g.of(s.Elem, taken)
	}
	return out
}

// differs reports whether requests and responses differ in the required members of the
// shape or of one within it.
func (s *Shape) differs(seen map[*Shape]bool) bool {
	if seen[s] {
		return false
	}
	seen[s] = true
	for _, f := range s.Fields {
		if f.Always != f.Required || f.Shape.differs(seen) {
			return true
		}
	}
	return s.Elem != nil && s.Elem.differs(seen)
}

func (g *Schemas) object(s *Shape, taken bool) map[string]any {
	properties, required := make(map[string]any), []string{}
	for _, f := range s.Fields {
		properties[f.Name] = g.field(f, taken)
		if taken && f.Required || !taken && f.Always {
			required = append(required, f.Name)
		}
	}
	out := map[string]any{"type": Object, "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	set(out, "description", s.Doc)
	return out
}

// Parameter returns the schema of a parameter.
func (g *Schemas) Parameter(f *Field) map[string]any { return g.field(f, true) }

func (g *Schemas) field(f *Field, taken bool) map[string]any {
	out := g.of(f.Shape, taken)
	doc := f.Doc
	if taken && f.Optional != "" {
		doc = strings.TrimPrefix(doc+"; without it "+f.Optional, "; ")
	}
	set(out, "description", doc)
	if f.Example != "" {
		out["examples"] = []any{f.value(f.Example)}
	}
	if f.Default != "" {
		out["default"] = f.value(f.Default)
	}
	if len(f.Enum) > 0 {
		enum := []any{}
		for _, v := range f.Enum {
			enum = append(enum, f.value(v))
		}
		out["enum"] = enum
	}
	least, most := "minimum", "maximum"
	switch f.Shape.Kind {
	case String:
		least, most = "minLength", "maxLength"
	case Array:
		least, most = "minItems", "maxItems"
	}
	if f.Min != nil {
		out[least] = *f.Min
	}
	if f.Max != nil {
		out[most] = *f.Max
	}
	return out
}

// value returns the JSON value for the text of a tag.
func (f *Field) value(text string) any {
	switch f.Shape.Kind {
	case Integer, Number:
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return json.Number(text)
		}
	case Boolean:
		return text == "true"
	case String:
		return text
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

func set(o map[string]any, name, value string) {
	if value != "" {
		o[name] = value
	}
}

package rest

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/thole-dev/thole/internal/shape"
)

// defaultURL is where `thole dev` and `thole serve` listen unless told otherwise. The page
// /docs shows its own address instead.
const defaultURL = "http://127.0.0.1:8465"

// curl returns a curl command that calls the operation, made from the examples of its
// input.
func (op *operation) curl() string {
	path := strings.ReplaceAll(strings.ReplaceAll(op.path, "...}", "}"), "{space}", "project:shop")
	handler := &op.does
	flags := ""
	if op.isStream() && op.failsWithout() {
		handler, flags = &op.streams, flags+" -N -H 'Accept: text/event-stream'"
	}
	var query []string
	for _, p := range handler.params {
		example := p.Example
		switch {
		case p.in == "path":
			if p.Name != "name" && p.Name != "path" && p.Name != "key" { // those may hold slashes
				example = url.PathEscape(example)
			}
			path = strings.ReplaceAll(path, "{"+p.Name+"}", example)
		case !p.Required:
		case p.in == "query":
			query = append(query, p.Name+"="+example)
		default:
			flags += " -H \"" + p.Name + ": $TOKEN\""
		}
	}
	if op.access != public {
		flags += " -H \"Authorization: Bearer $THOLE_TOKEN\""
	}
	if op.method != "GET" {
		flags += " -X " + op.method
	}
	switch b := handler.body; {
	case b == nil:
	case b.shape == nil:
		flags += " --data-binary @FILE"
	default:
		body := sampleOf(b.shape, nil)
		if len(b.shape.Fields) == 0 { // a patch of any kind
			body = sampleOf(opsShape, nil)
		}
		if text, err := marshal(body); err == nil && !(b.optional && len(body.(*ordered).names) == 0) {
			flags += " --json " + quote(strings.TrimSpace(string(text)))
		}
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	return "curl" + flags + " \"" + defaultURL + path + "\""
}

// quote returns text as one word of a shell command.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// failsWithout reports whether the operation fails without Accept: text/event-stream.
func (op *operation) failsWithout() bool { return op.answers() == nil }

// sampleOf returns an example value of a shape, with its required members and those
// that have an example.
func sampleOf(s *shape.Shape, f *shape.Field) any {
	switch {
	case f != nil && f.Example != "" && s.Kind == shape.String:
		return f.Example
	case f != nil && f.Example != "" && json.Valid([]byte(f.Example)):
		return json.RawMessage(f.Example)
	case f != nil && f.Enum != nil:
		return f.Enum[0]
	}
	switch s.Kind {
	case shape.Object:
		out := new(ordered)
		for _, f := range s.Fields {
			if f.Required || f.Example != "" {
				out.set(f.Name, sampleOf(f.Shape, f))
			}
		}
		return out
	case shape.Array:
		return []any{sampleOf(s.Elem, nil)}
	case shape.Integer, shape.Number:
		return 1
	case shape.Boolean:
		return true
	case shape.String:
		return "…"
	}
	return object{}
}

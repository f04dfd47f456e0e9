package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/thole-dev/thole"
)

// object is an OpenAPI 3.1 document, or a part of one.
type object = map[string]any

// OpenAPI returns the API's description, made from its routes and the Go types
// that they take and give.
func (a *API) OpenAPI() ([]byte, error) {
	g := generator{schemas: object{}, types: make(map[string]reflect.Type)}
	g.reflector = &jsonschema.Reflector{
		Anonymous: true, AllowAdditionalProperties: true, Namer: g.name, Mapper: mapType,
	}
	paths := object{}
	for i := range a.routes {
		rt := &a.routes[i]
		p := strings.ReplaceAll(rt.path, "...}", "}")
		item, _ := paths[p].(object)
		if item == nil {
			item = object{}
			paths[p] = item
		}
		item[strings.ToLower(rt.method)] = g.operation(rt)
	}
	version := a.opts.Version
	if version == "" {
		version = "dev"
	}
	problem := g.schema(reflect.TypeFor[Problem]())
	g.describeCodes()
	doc := object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Thole", "version": version,
			"description": "The state layer for AI agents. Errors are problems (RFC 9457) with a stable code. " +
				"A field that a request does not know is refused.",
			"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []any{object{"url": "/"}},
		"security": []any{object{"token": []any{}}, object{}},
		"paths":    paths,
		"components": object{
			"schemas":         g.schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
			"responses": object{"Problem": object{
				"description": "What went wrong",
				"content":     object{"application/problem+json": object{"schema": problem}},
			}},
		},
	}
	if g.err != nil {
		return nil, g.err
	}
	return json.MarshalIndent(doc, "", "  ")
}

func (a *API) serveOpenAPI() http.HandlerFunc {
	body, err := a.OpenAPI()
	return func(w http.ResponseWriter, r *http.Request) {
		if err != nil {
			a.problem(w, r, w.Header().Get("X-Request-Id"), err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	}
}

// generator collects the schemas of all types that it meets.
type generator struct {
	reflector *jsonschema.Reflector
	schemas   object
	types     map[string]reflect.Type // by the name of their schema
	err       error
}

// describeCodes lists the codes of the error table in the schema of problems.
func (g *generator) describeCodes() {
	var codes []any
	for _, k := range kinds() {
		if !slices.Contains(codes, any(k.code)) {
			codes = append(codes, k.code)
		}
	}
	schema, _ := g.schemas[typeName(reflect.TypeFor[Problem]())].(object)
	properties, _ := schema["properties"].(object)
	code, ok := properties["code"].(object)
	if !ok {
		g.err = errors.New("the schema of problems has no code")
		return
	}
	code["enum"] = codes
}

// name is typeName; two types of one name are an error.
func (g *generator) name(t reflect.Type) string {
	name := typeName(t)
	if other := g.types[name]; name != "" && other != nil && other != t {
		g.err = fmt.Errorf("%v and %v have one schema name, %s", other, t, name)
	}
	g.types[name] = t
	return name
}

func (g *generator) operation(rt *route) object {
	op := object{
		"summary": rt.summary, "operationId": operationID(rt), "tags": []any{rt.tag},
		"parameters": g.parameters(rt), "responses": g.responses(rt),
	}
	if rt.do.request != nil {
		op["requestBody"] = object{
			"required": !rt.do.optional,
			"content":  object{"application/json": object{"schema": g.schema(rt.do.request)}},
		}
	}
	if rt.do.takes != "" {
		op["requestBody"] = object{"required": true, "content": object{rt.do.takes: object{}}}
	}
	if rt.do.patch {
		op["requestBody"] = object{"required": true, "content": object{
			"application/merge-patch+json": object{"schema": object{"description": "RFC 7396"}},
			"application/json-patch+json":  object{"schema": object{"type": "array", "items": object{"type": "object"}, "description": "RFC 6902"}},
			"application/json":             object{"schema": g.schema(reflect.TypeFor[Ops]())},
		}}
	}
	if rt.access != public {
		op["description"] = "Needs a grant to " + string(rt.access) + "."
		if rt.access == anyToken {
			op["description"] = "Needs a valid token; shows what its grants show."
		}
	}
	return op
}

func (g *generator) responses(rt *route) object {
	ok := object{"description": "Done"}
	content := object{}
	if rt.do.response != nil {
		content["application/json"] = object{"schema": g.schema(rt.do.response)}
	}
	if rt.do.gives != "" {
		content[rt.do.gives] = object{}
	}
	stream := object{"schema": object{"type": "string"}}
	if rt.stream != nil && rt.success() == http.StatusOK {
		content["text/event-stream"] = stream
	}
	if len(content) > 0 {
		ok["content"] = content
	}
	if rt.etag {
		ok["headers"] = object{"ETag": object{
			"description": "the version, in quotes", "schema": object{"type": "string"}}}
	}
	all := object{
		strconv.Itoa(rt.success()): ok,
		"default":                  object{"$ref": "#/components/responses/Problem"},
	}
	if rt.do.gives == bytesType {
		all["206"] = object{"description": "The ranges that were asked for", "content": object{bytesType: object{}, "multipart/byteranges": object{}}}
	}
	if rt.etag && !rt.mutates() {
		all["304"] = object{"description": "The version of If-None-Match still holds"}
	}
	if rt.stream != nil && rt.success() != http.StatusOK {
		all["200"] = object{"description": "Events, as they come", "content": object{"text/event-stream": stream}}
	}
	return all
}

var pathParam = regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`) // never changed

func (g *generator) parameters(rt *route) []any {
	params := []any{}
	add := func(in, name, kind, about string) {
		params = append(params, object{"name": name, "in": in, "required": in == "path" || name == "Thole-Fence" && rt.holds,
			"description": about, "schema": object{"type": kind}})
	}
	for _, m := range pathParam.FindAllStringSubmatch(rt.path, -1) {
		about := "percent-encoded"
		if m[1] == "space" {
			about = "global, or kind:id such as project:shop"
		}
		add("path", m[1], "string", about)
	}
	for _, q := range rt.query {
		add("query", q.name, q.kind, q.about)
	}
	if rt.stream != nil {
		add("header", "Last-Event-ID", "string", "the id of the last event that was seen")
	}
	if rt.mutates() {
		add("header", "Idempotency-Key", "string", "a repeat with the same key, method, path and body does nothing and gets the same answer, for 24 h")
		add("header", "Thole-Fence", "string", "tokens of leases that must still be held, separated by commas; else 409 fenced")
	}
	if rt.etag && rt.mutates() {
		add("header", "If-Match", "string", "the ETag that must still hold; else 412 with the current one")
		add("header", "If-None-Match", "string", "*: it must not exist yet")
	} else if rt.etag {
		add("header", "If-None-Match", "string", "an ETag: 304 if it still holds")
	}
	return params
}

// schema returns a reference to t's schema, or the schema itself if t has no
// name, and keeps what it refers to.
func (g *generator) schema(t reflect.Type) any {
	s := g.reflector.ReflectFromType(t)
	s.Version = ""
	for name, def := range s.Definitions {
		g.schemas[name] = relocate(def)
	}
	s.Definitions = nil
	return relocate(s)
}

// relocate turns a schema into plain JSON whose references point to where
// OpenAPI keeps schemas.
func relocate(s *jsonschema.Schema) any {
	data, err := json.Marshal(s)
	if err != nil {
		return true
	}
	var v any
	json.Unmarshal([]byte(strings.ReplaceAll(string(data), `"#/$defs/`, `"#/components/schemas/`)), &v) // just made: cannot fail
	return v
}

// mapType describes types whose JSON is not what their Go kind suggests.
func mapType(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[thole.Position]():
		return &jsonschema.Schema{Type: "string", Description: "a position: opaque, sorts bytewise in journal order; empty: none"}
	case reflect.TypeFor[json.Number]():
		return &jsonschema.Schema{Type: "number"}
	case reflect.TypeFor[json.RawMessage]():
		return &jsonschema.Schema{Description: "any JSON"}
	}
	return nil
}

// typeName names a schema: rest's own types by their name, a concept's with the
// package before it, a page by its items.
func typeName(t reflect.Type) string {
	name := t.Name()
	if outer, inner, generic := strings.Cut(name, "["); generic {
		// inner is such as *github.com/thole-dev/thole/state/run.Run]
		pkg, of, _ := strings.Cut(path.Base(strings.Trim(inner, "*]")), ".")
		return schemaName(pkg, of) + title(outer)
	}
	return schemaName(path.Base(t.PkgPath()), name)
}

func schemaName(pkg, name string) string {
	switch {
	case pkg == "rest" || pkg == "thole" || name == "":
		return title(name)
	case strings.EqualFold(pkg, name):
		return title(name)
	default:
		return title(pkg) + title(name)
	}
}

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// operationID is the method and the nouns of the path: postSpaceThreadTurns.
func operationID(rt *route) string {
	id := strings.ToLower(rt.method)
	for part := range strings.SplitSeq(strings.TrimPrefix(rt.path, "/v1/"), "/") {
		if m := pathParam.FindStringSubmatch(part); m != nil {
			id += fmt.Sprintf("By%s", title(m[1]))
		} else {
			id += title(part)
		}
	}
	return id
}

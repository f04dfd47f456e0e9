package rest

import (
	"fmt"
	"net/http"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/shape"
)

// object is an OpenAPI 3.1 document, or a part of one.
type object = map[string]any

// ordered is an object whose members stay in the order in which they came.
type ordered struct {
	names  []string
	values object
}

func (o *ordered) set(name string, value any) {
	if o.values == nil {
		o.values = make(object)
	}
	if _, known := o.values[name]; !known {
		o.names = append(o.names, name)
	}
	o.values[name] = value
}

// MarshalJSON implements json.Marshaler.
func (o *ordered) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, name := range o.names {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := marshal(o.values[name])
		if err != nil {
			return nil, err
		}
		b.WriteString(strconv.Quote(name) + ":" + string(value))
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

// OpenAPI returns the API's description, made from its operations and the Go types
// that they take and give.
func (a *API) OpenAPI() ([]byte, error) {
	g := newGenerator()
	paths := new(ordered)
	for i := range a.routes {
		rt := &a.routes[i]
		p := strings.ReplaceAll(rt.path, "...}", "}")
		item, _ := paths.values[p].(*ordered)
		if item == nil {
			item = new(ordered)
			paths.set(p, item)
		}
		item.set(strings.ToLower(rt.method), g.operation(rt))
	}
	version := a.opts.Version
	if version == "" {
		version = "dev"
	}
	var groups []any
	for _, t := range tags() {
		groups = append(groups, object{"name": t.name, "description": t.about})
	}
	problem := g.given(reflect.TypeFor[Problem]())
	doc := object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Thole", "version": version,
			"description": "The state layer for AI agents. Errors are problems (RFC 9457) with a stable code. " +
				"What a request says and the operation does not know is refused.",
			"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []any{object{"url": "/"}},
		"security": []any{object{"token": []any{}}, object{}},
		"tags":     groups,
		"paths":    paths,
		"components": object{
			"schemas":         g.schemas.Named,
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
	return marshal(doc)
}

func (a *API) serveOpenAPI() http.HandlerFunc {
	document := sync.OnceValues(a.OpenAPI) // it takes longer than all the rest of New
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := document()
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
	set     *shape.Set
	schemas *shape.Schemas
	types   map[string]reflect.Type // by the name of their schema
	err     error
}

func newGenerator() *generator {
	g := &generator{set: newShapes(), types: make(map[string]reflect.Type)}
	g.schemas = &shape.Schemas{Name: g.name, At: "#/components/schemas/", Named: make(object)}
	return g
}

// newShapes returns a set of shapes that knows our types.
func newShapes() *shape.Set {
	return shape.NewSet(&shape.Shape{
		Type: reflect.TypeFor[thole.Position](), Kind: shape.String,
		Doc: "a position: opaque, sorts bytewise in journal order; empty: none",
	})
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

func (g *generator) given(t reflect.Type) object { return g.schemas.Given(g.set.Of(t)) }
func (g *generator) taken(t reflect.Type) object { return g.schemas.Taken(g.set.Of(t)) }

func (g *generator) operation(rt *route) object {
	op := object{
		"summary": rt.summary, "operationId": operationID(rt), "tags": []any{rt.tag},
		"parameters": g.parameters(rt), "responses": g.responses(rt),
	}
	if body := g.requestBody(rt); body != nil {
		op["requestBody"] = body
	}
	if rt.access != public {
		op["description"] = "Needs a grant to " + string(rt.access) + "."
		if rt.access == anyToken {
			op["description"] = "Needs a valid token; shows what its grants show."
		}
	}
	return op
}

// requestBody describes what the operation takes in the body; nil: nothing.
func (g *generator) requestBody(rt *route) any {
	in := rt.does.input
	switch {
	case in == nil:
		return g.oldRequestBody(rt)
	case in.body == nil:
		return nil
	case in.body.shape == nil:
		return object{"required": true, "content": object{in.body.media: object{}}}
	}
	content := object{"application/json": object{"schema": g.taken(in.body.shape.Type)}}
	if own, ok := reflect.New(in.body.shape.Type).Interface().(ownBody); ok {
		content = own.content(g)
	}
	return object{"required": !in.body.optional, "content": content}
}

func (g *generator) oldRequestBody(rt *route) any {
	switch {
	case rt.do.request != nil:
		return object{"required": !rt.do.optional, "content": object{"application/json": object{"schema": g.taken(rt.do.request)}}}
	case rt.do.takes != "":
		return object{"required": true, "content": object{rt.do.takes: object{}}}
	case rt.do.patch:
		return object{"required": true, "content": object{
			"application/merge-patch+json": object{"schema": object{"description": "RFC 7396"}},
			"application/json-patch+json":  object{"schema": object{"type": "array", "items": object{"type": "object"}, "description": "RFC 6902"}},
			"application/json":             object{"schema": g.taken(reflect.TypeFor[Ops]())},
		}}
	}
	return nil
}

func (g *generator) responses(rt *route) object {
	ok := object{"description": "Done"}
	content := object{}
	if out := rt.answers(); out != nil {
		content["application/json"] = object{"schema": g.given(out)}
	}
	if rt.do.gives != "" {
		content[rt.do.gives] = object{}
	}
	stream := object{"schema": object{"type": "string"}}
	if rt.isStream() && rt.success() == http.StatusOK {
		content["text/event-stream"] = stream
	}
	if len(content) > 0 {
		ok["content"] = content
	}
	headers := object{}
	if rt.etag || rt.version != nil {
		headers["ETag"] = object{"description": "the version, in quotes", "schema": object{"type": "string"}}
	}
	if rt.location != "" {
		headers["Location"] = object{"description": "the path of what was made", "schema": object{"type": "string"}}
	}
	if len(headers) > 0 {
		ok["headers"] = headers
	}
	all := object{
		strconv.Itoa(rt.success()): ok,
		"default":                  object{"$ref": "#/components/responses/Problem"},
	}
	if rt.do.gives == bytesType {
		all["206"] = object{"description": "The ranges that were asked for", "content": object{bytesType: object{}, "multipart/byteranges": object{}}}
	}
	if (rt.etag || rt.version != nil) && rt.reads() {
		all["304"] = object{"description": "The version of If-None-Match still holds"}
	}
	if rt.isStream() && rt.success() != http.StatusOK {
		all["200"] = object{"description": "Events, as they come", "content": object{"text/event-stream": stream}}
	}
	g.failures(rt, all)
	return all
}

// failures adds what may go wrong, by status and code.
func (g *generator) failures(rt *route, all object) {
	byStatus := make(map[int][]failure)
	for _, f := range rt.allFailures() {
		byStatus[f.status()] = append(byStatus[f.status()], f)
	}
	for status, failures := range byStatus {
		var about []string
		var codes []any
		for _, f := range failures {
			code := kindOf(f.err).code
			about = append(about, "`"+code+"`: "+f.when)
			if !slices.Contains(codes, any(code)) {
				codes = append(codes, code)
			}
		}
		all[strconv.Itoa(status)] = object{
			"description": strings.Join(about, ". "),
			"content": object{"application/problem+json": object{"schema": object{"allOf": []any{
				g.given(reflect.TypeFor[Problem]()),
				object{"type": "object", "properties": object{"code": object{"enum": codes}}},
			}}}},
		}
	}
}

var pathParam = regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`) // never changed

func (g *generator) parameters(rt *route) []any {
	params := []any{}
	add := func(in, name string, required bool, about string, schema object) {
		params = append(params, object{"name": name, "in": in, "required": required, "description": about, "schema": schema})
	}
	text := object{"type": "string"}
	if strings.Contains(rt.path, "{space}") {
		add("path", "space", true, "global, or kind:id such as project:shop", object{"type": "string", "examples": []any{"project:shop"}})
	}
	if rt.does.input == nil {
		for _, m := range pathParam.FindAllStringSubmatch(rt.path, -1) {
			if m[1] != "space" {
				add("path", m[1], true, "percent-encoded", text)
			}
		}
	}
	for _, q := range rt.query {
		add("query", q.name, false, q.about, object{"type": q.kind})
	}
	for _, p := range rt.parameters() {
		schema := g.schemas.Parameter(p.Field)
		about, _ := schema["description"].(string)
		delete(schema, "description")
		param := object{"name": p.Name, "in": p.in, "required": p.Required, "description": about, "schema": schema}
		if p.Shape.Kind == shape.Array {
			param["explode"] = false // one, separated by commas
		}
		if p.empty != "" {
			param["allowEmptyValue"] = true
		}
		params = append(params, param)
	}
	if rt.stream != nil {
		add("header", "Last-Event-ID", false, "the id of the last event that was seen", text)
	}
	if rt.mutates() {
		add("header", "Idempotency-Key", false, "a repeat with the same key, method, path, body and preconditions does nothing and gets the same answer, for 24 h", text)
		if !slices.ContainsFunc(rt.parameters(), func(p *param) bool { return p.Name == "Thole-Fence" }) {
			add("header", "Thole-Fence", rt.holds, "tokens of leases that must still be held, separated by commas; else 409 fenced", text)
		}
	}
	if rt.etag && rt.mutates() {
		add("header", "If-Match", false, "the ETag that must still hold; else 412 with the current one", text)
		add("header", "If-None-Match", false, "*: it must not exist yet", text)
	} else if (rt.etag || rt.version != nil) && rt.reads() {
		add("header", "If-None-Match", false, "an ETag: 304 if it still holds", text)
	}
	return params
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
	case pkg == "rest" || pkg == "thole" || pkg == "journal" || name == "":
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
	if rt.id != "" {
		return rt.id
	}
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

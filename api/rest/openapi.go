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
	"github.com/thole-dev/thole/journal/problem"
)

// object is an OpenAPI 3.1 document, or a part of one.
type object = map[string]any

// ordered is an object that keeps its members in the order of insertion.
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

// OpenAPI returns the API's OpenAPI document, made from its operations and the Go
// types of their inputs and answers.
func (a *API) OpenAPI() ([]byte, error) {
	g := newGenerator()
	g.events(a.store.Concepts().EventTypes())
	paths := new(ordered)
	for i := range a.table {
		op := &a.table[i]
		p := strings.ReplaceAll(op.path, "...}", "}")
		item, _ := paths.values[p].(*ordered)
		if item == nil {
			item = new(ordered)
			paths.set(p, item)
		}
		item.set(strings.ToLower(op.method), g.operation(op))
	}
	version := a.opts.Version
	if version == "" {
		version = "dev"
	}
	var tags []any
	for _, group := range a.groups {
		tags = append(tags, object{"name": group.name, "description": group.about})
	}
	problem := g.given(reflect.TypeFor[problem.Problem]())
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
		"tags":     tags,
		"paths":    paths,
		"components": object{
			"schemas":         g.schemas.Named,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
			"responses": object{"Problem": object{
				"description": "A failure that says nothing of the operation: the server or its store cannot do anything now, or the request is not one that it takes at all",
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
	document := sync.OnceValues(a.OpenAPI) // made on first use: it takes longer than the rest of New
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

// newShapes returns a set of shapes that knows Thole's types.
func newShapes() *shape.Set {
	return shape.NewSet(
		&shape.Shape{
			Type: reflect.TypeFor[thole.Position](), Kind: shape.String,
			Doc: "a position: opaque, sorts bytewise in journal order; empty: none",
		},
		&shape.Shape{Type: reflect.TypeFor[thole.Fence](), Kind: shape.String, Doc: "a lease's token: opaque"}, // see [thole.Fence.Proof]
	)
}

// name returns typeName(t). It sets g.err if another type has the same name.
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

func (g *generator) operation(op *operation) object {
	out := object{
		"summary": op.summary, "operationId": op.id, "tags": []any{op.tag},
		"parameters": g.parameters(op), "responses": g.responses(op),
	}
	if body := g.requestBody(op); body != nil {
		out["requestBody"] = body
	}
	out["x-codeSamples"] = []any{object{"lang": "Shell", "source": op.curl()}}
	if about := strings.TrimSpace(op.about + " " + op.needed()); about != "" {
		out["description"] = about
	}
	return out
}

// needed says in a sentence which token the operation needs; "": none.
func (op *operation) needed() string {
	needs := op.needs
	switch {
	case needs != "":
	case op.access == public:
		return ""
	case op.access == anyToken:
		needs = "a valid token, whatever its grants"
	default:
		needs = "a grant to " + string(op.access)
	}
	return "Needs " + needs + "."
}

// requestBody describes the operation's body; nil if it takes none.
func (g *generator) requestBody(op *operation) any {
	b := op.does.body
	switch {
	case b == nil:
		return nil
	case b.shape == nil:
		return object{"required": true, "content": object{b.media: object{}}}
	}
	if own, ok := reflect.New(b.shape.Type).Interface().(ownBody); ok {
		return object{"required": !b.optional, "content": own.content(g)}
	}
	content := object{"application/json": object{"schema": g.taken(b.shape.Type)}}
	return object{"required": !b.optional, "content": content}
}

func (g *generator) responses(op *operation) object {
	ok := object{"description": "Done"}
	content := object{}
	if out := op.answers(); out != nil {
		content["application/json"] = object{"schema": g.given(out)}
	}
	if op.gives != "" {
		content[op.gives] = object{}
	}
	all := object{strconv.Itoa(op.success()): ok, "default": object{"$ref": "#/components/responses/Problem"}}
	if op.isStream() {
		stream := object{"schema": g.given(reflect.TypeFor[event]())}
		if op.success() == http.StatusOK {
			content["text/event-stream"] = stream
		} else {
			all["200"] = object{"description": eventStream, "content": object{"text/event-stream": stream}}
		}
	}
	if len(content) > 0 {
		ok["content"] = content
	}
	if op.isStream() && op.success() == http.StatusOK {
		ok["description"] = "Done. " + eventStream
	}
	headers := object{}
	if op.version != nil || op.gives == bytesType {
		headers["ETag"] = object{"description": "the version, in quotes", "schema": object{"type": "string"}}
	}
	if op.location != "" {
		headers["Location"] = object{"description": "the path of what was made", "schema": object{"type": "string"}}
	}
	if len(headers) > 0 {
		ok["headers"] = headers
	}
	if op.gives == bytesType {
		all["206"] = object{"description": "The ranges that were asked for", "content": object{bytesType: object{}, "multipart/byteranges": object{}}}
	}
	if op.reads() && len(headers) > 0 {
		all["304"] = object{"description": "The version of If-None-Match still holds"}
	}
	g.failures(op, all)
	return all
}

// failures adds the operation's failures to all, by status and code.
func (g *generator) failures(op *operation, all object) {
	byStatus := make(map[int][]failure)
	for _, f := range op.allFailures() {
		byStatus[f.status()] = append(byStatus[f.status()], f)
	}
	for status, failures := range byStatus {
		var about []string
		var codes []any
		for _, f := range failures {
			code := problem.Code(f.err)
			about = append(about, "`"+code+"`: "+f.when)
			if !slices.Contains(codes, any(code)) {
				codes = append(codes, code)
			}
		}
		all[strconv.Itoa(status)] = object{
			"description": strings.Join(about, ". "),
			"content": object{"application/problem+json": object{"schema": object{"allOf": []any{
				g.given(reflect.TypeFor[problem.Problem]()),
				object{"type": "object", "properties": object{"code": object{"enum": codes}}},
			}}}},
		}
	}
}

var pathParam = regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`) // never changed

func (g *generator) parameters(op *operation) []any {
	params := []any{}
	add := func(in, name string, required bool, about string, schema object) {
		params = append(params, object{"name": name, "in": in, "required": required, "description": about, "schema": schema})
	}
	text := object{"type": "string"}
	if op.inSpace() {
		add("path", "space", true, "global, or kind:id such as project:shop", object{"type": "string", "examples": []any{"project:shop"}})
	}
	for _, p := range op.parameters() {
		schema := g.schemas.Parameter(p.Field)
		about, _ := schema["description"].(string)
		delete(schema, "description")
		about += op.inStreams(p)
		param := object{"name": p.Name, "in": p.in, "required": p.Required, "description": about, "schema": schema}
		if p.Shape.Kind == shape.Array {
			param["explode"] = false // one value, separated by commas
		}
		if p.empty != "" {
			param["allowEmptyValue"] = true
		}
		params = append(params, param)
	}
	if op.takesKey() {
		add("header", "Idempotency-Key", false, "a repeat with the same key, method, path, body and preconditions does nothing and gets the same answer, for 24 h", text)
	}
	if op.inSpace() && op.does.param("header", "Thole-Fence") == nil {
		add("header", "Thole-Fence", false, "tokens of leases that must still be held, separated by commas; else 409 fenced", text)
	}
	if op.version != nil && op.reads() {
		add("header", "If-None-Match", false, "an ETag: 304 if it still holds", text)
	}
	return params
}

// inStreams says what a parameter means in event streams, if that is something else than
// in the operation's other answer.
func (op *operation) inStreams(p *param) string {
	if op.does.input == nil || op.streams.input == nil {
		return ""
	}
	page, stream := op.does.param(p.in, p.Name), op.streams.param(p.in, p.Name)
	switch {
	case page == nil:
		return "; only for event streams"
	case stream == nil:
		return "; not for event streams"
	case stream.Doc != page.Doc:
		return "; for event streams: " + stream.Doc
	}
	return ""
}

// typeName returns the name of a type's schema: rest's own types have their name, a
// concept's have the package's before it, and a page has that of its items.
func typeName(t reflect.Type) string {
	name := t.Name()
	if outer, inner, generic := strings.Cut(name, "["); generic {
		// inner is like *github.com/thole-dev/thole/state/run.Run]
		pkg, of, _ := strings.Cut(path.Base(strings.Trim(inner, "*]")), ".")
		return schemaName(pkg, of) + title(strings.TrimSuffix(outer, "Of"))
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

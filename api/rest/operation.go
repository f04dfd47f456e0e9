package rest

// An operation is one value: its name, who may call it, its input and its answer, and
// how it fails. The mux, the checks before a handler, the binding of parameters, the
// OpenAPI document and the page /docs are all made from it.
//
// How to write one; kv.go is a short example:
//
//  1. One struct for its input. Fields are tagged path:"thread",
//     query:"limit" or header:"If-Match"; the body is the field Body, of a type
//     with json tags (body:"optional" if it may be left out). The words default,
//     min, max, enum, example and doc are tags of their own, read by package
//     shape; they are checked before the handler runs and shown in the document.
//     An empty parameter is refused, unless its tag empty says what that means.
//     Common parameters are embedded: ofThread, paging, ifMatch, precondition.
//     {space} is c.space. A {thread} in the path is checked before the handler runs:
//     whether the caller may know of it. That it exists is for the handler to check,
//     with thread.Load, because admins may know of every thread.
//  2. One type for its answer; the type none means no answer. The answer's member
//     version, or its field tagged header:"ETag", becomes the ETag, and a GET that
//     has one honours If-None-Match. location is the path of a new resource. Fields
//     that name other records are tagged names:"masked" or names:"omitted": see told.go.
//  3. The handler is func(*call, In) (Out, error), wrapped by does; one that
//     answers with an event stream is func(*call, In) error, wrapped by streams,
//     with a struct of its own. It reads nothing else of the request.
//  4. failures lists the errors that mean something particular in this operation;
//     the usual ones (no token, no grant, no thread, a failed precondition, …) are
//     added.

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/internal/shape"
)

// operation is one operation of the API. The table of operations is the only list of
// them.
type operation struct {
	id       string // as clients call it: createThread
	method   string
	path     string // as http.ServeMux takes it; {space} and {thread} mean the same everywhere
	summary  string
	about    string // what the summary has no room for, in sentences
	access   access
	needs    string // what the handler asks of the token, where access does not say it all
	scoped   bool   // the handler itself respects a narrowed grant; else such a grant needs {thread}
	works    bool   // the worker of a run may call it in the run's private thread, as it may all reads
	ends     bool   // it releases a lease: one that has already been released is no error
	waits    bool   // it takes a signal that may go to the run that resumes: see [call.keyOf]
	status   int    // of success; 0: 200, or 204 without an answer
	does     handler
	streams  handler   // answers instead of does when the client accepts text/event-stream
	failures []failure // besides the usual ones: see [operation.allFailures]
	location string    // the path of a new resource, for the header Location: see [operation.compilePlace]
	takes    string    // media type of a body that is an io.Reader
	gives    string    // media type of an answer that its handler writes

	tag     string // the name of its group
	version []int  // index of the answer's field that becomes the ETag; nil: none
	place   place  // compiled from location
}

// access is the access that an operation needs.
type access string

const (
	public   access = ""      // nothing
	anyToken access = "token" // a valid token, whatever its grants; the handler may ask for more, which needs says
	read            = access(auth.Read)
	write           = access(auth.Write)
	admin           = access(auth.Admin)
)

// handler is a function with the types of its input and its answer.
type handler struct {
	in, out reflect.Type
	serve   func(*call) (any, error)
	*input         // compiled from in
	tell    teller // compiled from out; nil: answers are shown as they are
}

// does makes a handler from a function.
func does[In, Out any](fn func(*call, In) (Out, error)) handler {
	return handler{
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
		serve: func(c *call) (any, error) {
			in := new(In)
			if err := c.bind(reflect.ValueOf(in).Elem()); err != nil {
				return nil, err
			}
			return fn(c, *in)
		},
	}
}

// streams makes a handler from a function that answers with an event stream.
func streams[In any](fn func(*call, In) error) handler {
	h := does(func(c *call, in In) (sent, error) { return sent{}, fn(c, in) })
	h.out = nil
	return h
}

// input describes what a handler takes from a request.
type input struct {
	params []*param
	body   *body // nil: none
}

// param is a parameter of an operation.
type param struct {
	*shape.Field
	in    string // path, query or header
	empty string // the meaning of an empty value; "": an empty value is refused
}

// body describes the body that a handler takes.
type body struct {
	index    []int
	shape    *shape.Shape // nil: not JSON of a shape
	optional bool         // an empty one stands for {}
	media    string       // media type of a body that is not JSON but an io.Reader
}

// mistake panics because of a mistake in the table of operations.
func (op *operation) mistake(format string, args ...any) {
	panic(fmt.Sprintf("operation %s (%s %s): ", op.id, op.method, op.path) + fmt.Sprintf(format, args...))
}

// compile reads the types of the operation's handlers.
func (op *operation) compile(set *shape.Set) {
	for _, h := range []*handler{&op.does, &op.streams} {
		if h.serve == nil {
			continue
		}
		h.input = new(input)
		op.addFields(h.input, set, h.in, nil)
		for _, m := range pathParam.FindAllStringSubmatch(op.path, -1) {
			if m[1] != "space" && !slices.ContainsFunc(h.params, func(p *param) bool { return p.in == "path" && p.Name == m[1] }) {
				op.mistake("nothing takes {%s}", m[1])
			}
		}
	}
	if op.does.out == nil {
		return
	}
	op.version, op.does.tell = versionOf(op.does.out), tellerOf(op.does.out, nil)
	if op.location != "" {
		op.place = op.compilePlace(set)
	}
}

func (op *operation) addFields(in *input, set *shape.Set, t reflect.Type, index []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		f.Index = append(slices.Clone(index), i)
		tagged := false
		for _, where := range []string{"path", "query", "header"} {
			name := f.Tag.Get(where)
			if name == "" {
				continue
			}
			p := &param{Field: set.Field(f), in: where, empty: f.Tag.Get("empty")}
			p.Name, p.Required = name, where == "path" || name == "Thole-Fence" || f.Tag.Get("required") == "true"
			if p.Default != "" {
				if err := p.Parse(p.Default, reflect.New(f.Type).Elem()); err != nil {
					op.mistake("the default of %s %v", name, err)
				}
			}
			in.params, tagged = append(in.params, p), true
		}
		switch {
		case tagged:
		case f.Name == "Body":
			in.body = &body{index: f.Index, optional: f.Tag.Get("body") == "optional"}
			if f.Type == reflect.TypeFor[io.Reader]() {
				in.body.media = op.takes
			} else {
				in.body.shape = set.Of(f.Type)
			}
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			op.addFields(in, set, f.Type, f.Index)
		default:
			op.mistake("the field %s is no parameter and not the body", f.Name)
		}
	}
}

// isReader reports whether the handler reads the body itself.
func (in *input) isReader() bool { return in.body != nil && in.body.shape == nil }

// param returns the parameter of that name, or nil.
func (in *input) param(where, name string) *param {
	for _, p := range in.params {
		if p.in == where && p.Name == name {
			return p
		}
	}
	return nil
}

// isPosition reports whether the parameter names a position, which may not be kept.
func (p *param) isPosition() bool {
	return p.Shape.Type == reflect.TypeFor[thole.Position]() || p.Name == "Last-Event-ID"
}

// names returns the names of the parameters in where: path, query or header.
func (in *input) names(where string) (all []string) {
	for _, p := range in.params {
		if p.in == where {
			all = append(all, p.Name)
		}
	}
	return all
}

// versionOf returns the index of the field that holds a type's version, or nil.
func versionOf(t reflect.Type) []int {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Type == reflect.TypeFor[thole.Position]() && (name == "version" || f.Tag.Get("header") == "ETag") {
			return f.Index
		}
	}
	return nil
}

// field returns a field of an answer, which may be a pointer.
func field(v any, index []int) reflect.Value {
	out := reflect.ValueOf(v)
	for out.Kind() == reflect.Pointer {
		out = out.Elem()
	}
	return out.FieldByIndex(index)
}

// place is a path that is made from the request's path and the answer.
type place []placePart

type placePart struct {
	text  string // literal text, or
	path  string // a parameter of the path, or
	index []int  // a field of the answer
}

// compilePlace parses location: a path whose {names} are parameters of the operation's
// path or, if there is none of that name, members of the answer.
func (op *operation) compilePlace(set *shape.Set) (all place) {
	given, rest := set.Of(op.does.out), op.location
	for rest != "" {
		before, name, found := strings.Cut(rest, "{")
		all = append(all, placePart{text: before})
		if !found {
			break
		}
		name, rest, _ = strings.Cut(name, "}")
		part := placePart{path: name}
		if !strings.Contains(op.path, "{"+name) {
			f := given.Lookup(name)
			if f == nil {
				op.mistake("%s has no member %s", given.Type, name)
			}
			part = placePart{index: f.Index}
		}
		all = append(all, part)
	}
	return all
}

// headersOf sets the headers ETag and Location of an answer.
func (c *call) headersOf(v any) {
	h := c.w.Header()
	if index := c.op.version; index != nil {
		if at := field(v, index).Interface().(thole.Position); !at.IsZero() {
			h.Set("ETag", etag(at.String()))
		}
	}
	if c.op.place != nil {
		h.Set("Location", c.op.place.of(c.r, v))
	}
}

func (p place) of(r *http.Request, v any) string {
	var b strings.Builder
	for _, part := range p {
		switch {
		case part.path != "":
			b.WriteString(url.PathEscape(r.PathValue(part.path)))
		case part.index != nil:
			b.WriteString(url.PathEscape(field(v, part.index).String()))
		default:
			b.WriteString(part.text)
		}
	}
	return b.String()
}

package rest

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/internal/shape"
)

// route is one operation. The table of routes is the only place that says what
// there is: the mux, the checks before a handler and the OpenAPI document are
// all made from it.
type route struct {
	id      string // as clients call it: createThread
	method  string
	path    string // as http.ServeMux takes it; {space} and {thread} mean the same everywhere
	tag     string // what it is about, for the document
	summary string
	access  access
	scoped  bool       // the handler itself keeps to the grant's threads; else a narrowed grant needs {thread}
	query   []oldParam // beside those in the path
	works   bool       // the worker of a run may do it in the run's private thread; reading it may always
	holds   bool       // it is about a lease, whose token Thole-Fence must hold: see [call.fence]
	ends    bool       // it gives a lease back: one that nobody holds any more is no error
	waits   bool       // it takes what may go over to the run that resumes: see [call.keyOf]
	etag    bool       // the answer has an ETag, and If-Match or If-None-Match are honoured
	status  int        // of success; 0: 200, or 204 without an answer
	do      endpoint
	stream  func(*call) error // answers instead of do when the client accepts text/event-stream

	failures []failure // beside those that any operation of its kind may have
	location string    // where what was made is: see [route.compilePlace]
	does     handler
	streams  handler // answers instead of does when the client accepts text/event-stream

	version []int // the field of the answer that is its ETag; nil: none
	place   place // of location
}

// access is what a route needs.
type access string

const (
	public   access = ""      // nothing
	anyToken access = "token" // a valid token, whatever its grants; the handler filters
	read            = access(auth.Read)
	write           = access(auth.Write)
	admin           = access(auth.Admin)
)

type oldParam struct {
	name, kind, about string // kind: string, integer, boolean
}

// endpoint is a handler with the types of what it takes and gives; nil: nothing.
type endpoint struct {
	request  reflect.Type
	response reflect.Type
	optional bool         // an empty body stands for {}
	binary   bool         // the handler itself reads the body and writes the answer
	takes    string       // media type of a body that is not JSON
	gives    string       // media type of an answer that is not JSON of a type
	patch    bool         // the body is a patch of a document, of any kind
	shape    *shape.Shape // of request
	serve    func(*call) (any, error)
}

// none is the answer of an operation that has nothing to say: 204.
type none struct{}

// page is a part of a list.
type page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor" doc:"pass as cursor to go on; empty: there is no more now"`
}

func pageOf[T any](items []T, next string) page[T] {
	if items == nil {
		items = []T{}
	}
	return page[T]{Items: items, NextCursor: next}
}

// gives makes an endpoint of a handler that takes no body.
func gives[Resp any](fn func(*call) (Resp, error)) endpoint {
	return endpoint{
		response: responseType[Resp](),
		serve:    func(c *call) (any, error) { return fn(c) },
	}
}

// takes makes an endpoint of a handler that takes a JSON object.
func takes[Req, Resp any](fn func(*call, Req) (Resp, error)) endpoint {
	return endpoint{
		request:  reflect.TypeFor[Req](),
		response: responseType[Resp](),
		shape:    newShapes().Of(reflect.TypeFor[Req]()),
		serve: func(c *call) (any, error) {
			var req Req
			if c.route.do.optional && len(c.raw) == 0 {
				return fn(c, req)
			}
			if err := decodeShape(c.raw, &req, c.route.do.shape); err != nil {
				return nil, err
			}
			return fn(c, req)
		},
	}
}

// mayTake is takes for a body that may be left out.
func mayTake[Req, Resp any](fn func(*call, Req) (Resp, error)) endpoint {
	e := takes(fn)
	e.optional = true
	return e
}

func responseType[T any]() reflect.Type {
	t := reflect.TypeFor[T]()
	if t == reflect.TypeFor[none]() {
		return nil
	}
	return t
}

// routes is everything that there is under /v1, in the order of /docs: what people
// use first comes first.
func routes() []route {
	var all []route
	for _, part := range [][]route{
		threadRoutes(), runRoutes(), eventRoutes(), workerRoutes(), todoRoutes(), documentRoutes(), kvRoutes(),
		decisionRoutes(), lockRoutes(), fileRoutes(), blobRoutes(), spaceRoutes(), backendRoutes(),
	} {
		all = append(all, part...)
	}
	set := newShapes()
	for i := range all {
		all[i].compile(set)
	}
	return all
}

// tag is a group of operations.
type tag struct{ name, about string }

// tags are the groups of operations, in the order of /docs.
func tags() []tag {
	return []tag{
		{"threads", "Conversations: create one, post messages, read them"},
		{"runs", "Let an agent answer in a thread, follow it, cancel it"},
		{"events", "Read what happened, watch what happens, add events of your own"},
		{"workers", "For programs that do runs: claim one, write its turn, finish it"},
		{"todos", "The task list of a thread"},
		{"documents", "JSON documents with versions and patches"},
		{"kv", "Small values by namespace and key"},
		{"decisions", "What was about to be done, and what came of it"},
		{"locks", "Who works on what; with fencing tokens"},
		{"files", "What is known of the files of a project"},
		{"blobs", "Content by its SHA-256"},
		{"spaces", "What there is"},
		{"backend", "For other servers and programs that use this one as their store"},
	}
}

func (rt *route) success() int {
	switch {
	case rt.status != 0:
		return rt.status
	case rt.answers() == nil:
		return http.StatusNoContent
	}
	return http.StatusOK
}

// answers is the type of the JSON that it answers with; nil: none.
func (rt *route) answers() reflect.Type {
	switch out := rt.does.out; out {
	case nil:
		return rt.do.response
	case reflect.TypeFor[none](), reflect.TypeFor[sent]():
		return nil
	default:
		return out
	}
}

func (rt *route) isStream() bool { return rt.stream != nil || rt.streams.serve != nil }

// parameters are what its handlers take together.
func (rt *route) parameters() (all []*param) {
	for _, in := range []*input{rt.does.input, rt.streams.input} {
		if in == nil {
			continue
		}
		for _, p := range in.params {
			if !slices.ContainsFunc(all, func(had *param) bool { return had.in == p.in && had.Name == p.Name }) {
				all = append(all, p)
			}
		}
	}
	return all
}

func (rt *route) mutates() bool { return rt.method != http.MethodGet }
func (rt *route) reads() bool   { return rt.method == http.MethodGet }

// forWorkers reports whether the worker of a run may do it in the thread of the
// run although that is private.
func (rt *route) forWorkers() bool {
	return rt.works || !rt.mutates() || !strings.Contains(rt.path, "{thread}")
}

func (rt *route) declares(name string) bool {
	return slices.ContainsFunc(rt.query, func(p oldParam) bool { return p.name == name })
}

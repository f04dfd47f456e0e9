package rest

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/thole-dev/thole/api/auth"
)

// route is one operation. The table of routes is the only place that says what
// there is: the mux, the checks before a handler and the OpenAPI document are
// all made from it.
type route struct {
	method  string
	path    string // as http.ServeMux takes it; {space} and {thread} mean the same everywhere
	tag     string // what it is about, for the document
	summary string
	access  access
	scoped  bool    // the handler itself keeps to the grant's threads; else a narrowed grant needs {thread}
	query   []param // beside those in the path
	works   bool    // the worker of a run may do it in the run's private thread; reading it may always
	holds   bool    // it is about a lease, whose token Thole-Fence must hold: see [call.fence]
	ends    bool    // it gives a lease back: one that nobody holds any more is no error
	waits   bool    // it takes what may go over to the run that resumes: see [call.keyOf]
	etag    bool    // the answer has an ETag, and If-Match or If-None-Match are honoured
	status  int     // of success; 0: 200, or 204 without an answer
	do      endpoint
	stream  func(*call) error // answers instead of do when the client accepts text/event-stream
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

type param struct {
	name, kind, about string // kind: string, integer, boolean
}

// endpoint is a handler with the types of what it takes and gives; nil: nothing.
type endpoint struct {
	request  reflect.Type
	response reflect.Type
	optional bool   // an empty body stands for {}
	binary   bool   // the handler itself reads the body and writes the answer
	takes    string // media type of a body that is not JSON
	gives    string // media type of an answer that is not JSON of a type
	patch    bool   // the body is a patch of a document, of any kind
	shape    *shape // of request
	serve    func(*call) (any, error)
}

// none is the answer of an operation that has nothing to say: 204.
type none struct{}

// page is a part of a list.
type page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor" jsonschema:"description=pass as cursor to go on; empty: there is no more now"`
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
		shape:    compile(reflect.TypeFor[Req]()),
		serve: func(c *call) (any, error) {
			var req Req
			if c.route.do.optional && len(c.raw) == 0 {
				return fn(c, req)
			}
			if err := decode(c.raw, &req, c.route.do.shape); err != nil {
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

// routes is everything that there is under /v1.
func routes() []route {
	var all []route
	for _, part := range [][]route{
		spaceRoutes(), eventRoutes(), threadRoutes(), todoRoutes(), kvRoutes(), documentRoutes(),
		lockRoutes(), runRoutes(), workerRoutes(), decisionRoutes(), fileRoutes(), blobRoutes(), backendRoutes(),
	} {
		all = append(all, part...)
	}
	return all
}

func (rt *route) success() int {
	switch {
	case rt.status != 0:
		return rt.status
	case rt.do.response == nil:
		return http.StatusNoContent
	}
	return http.StatusOK
}

func (rt *route) mutates() bool { return rt.method != http.MethodGet }

// forWorkers reports whether the worker of a run may do it in the thread of the
// run although that is private.
func (rt *route) forWorkers() bool {
	return rt.works || !rt.mutates() || !strings.Contains(rt.path, "{thread}")
}

func (rt *route) declares(name string) bool {
	return slices.ContainsFunc(rt.query, func(p param) bool { return p.name == name })
}

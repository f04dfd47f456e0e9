package rest

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
)

// group is a group of operations.
type group struct {
	name, about string
	operations  []operation
}

// groups returns all operations under /v1, in the order of /docs: those that people use
// first come first.
func groups() []group {
	return []group{
		{"threads", "Conversations: create one, post messages, read them", slices.Concat(threadOperations(), stateOperations())},
		{"runs", "Let an agent answer in a thread, follow it, cancel it", runOperations()},
		{"events", "Read what happened, watch what happens, add events of your own", eventOperations()},
		{"workers", "For programs that execute runs: claim one, write its turn, finish it", workerOperations()},
		{"todos", "The task list of a thread", todoOperations()},
		{"documents", "JSON documents with versions and patches", documentOperations()},
		{"kv", "Small values by namespace and key", kvOperations()},
		{"decisions", "Actions recorded before they are done, and their outcomes", decisionOperations()},
		{"locks", "Who works on what; with fencing tokens", lockOperations()},
		{"files", "The known files of a project, and their changes", fileOperations()},
		{"blobs", "Content by its SHA-256", blobOperations()},
		{"spaces", "The spaces that exist", spaceOperations()},
		{"backend", "For other servers and programs that use this one as their store", backendOperations()},
	}
}

// compile returns the operations of all groups, ready to be served.
func compile(groups []group) []operation {
	var all []operation
	for _, g := range groups {
		for _, op := range g.operations {
			op.tag = g.name
			all = append(all, op)
		}
	}
	set := newShapes()
	for i := range all {
		all[i].compile(set)
	}
	return all
}

func (op *operation) success() int {
	switch {
	case op.status != 0:
		return op.status
	case op.answers() == nil:
		return http.StatusNoContent
	}
	return http.StatusOK
}

// none is the type of an empty answer: 204.
type none struct{}

// page is an answer that is a part of a list.
type page[T any] = thole.PageOf[T]

// pageOf returns p as an answer, in which no items are [], not null.
func pageOf[T any](p thole.PageOf[T], err error) (page[T], error) {
	if p.Items == nil {
		p.Items = []T{}
	}
	return p, err
}

// answers returns the type of the operation's JSON answer; nil if it has none.
func (op *operation) answers() reflect.Type {
	switch out := op.does.out; out {
	case nil:
		return nil
	case reflect.TypeFor[none](), reflect.TypeFor[sent]():
		return nil
	default:
		return out
	}
}

func (op *operation) isStream() bool { return op.streams.serve != nil }

// parameters returns the parameters of both handlers, each once.
func (op *operation) parameters() (all []*param) {
	for _, in := range []*input{op.does.input, op.streams.input} {
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

func (op *operation) mutates() bool { return op.method != http.MethodGet }
func (op *operation) reads() bool   { return op.method == http.MethodGet }

// inSpace reports whether the operation's path names a space. Such an operation may be
// done under leases there, which Thole-Fence names.
func (op *operation) inSpace() bool { return strings.Contains(op.path, "{space}") }

// takesKey reports whether the operation honours an idempotency key. One that stores the
// bytes of its body may be repeated without.
func (op *operation) takesKey() bool { return op.mutates() && !op.does.isReader() }

// forWorkers reports whether the worker of a run may call the operation in the run's
// thread although that is private.
func (op *operation) forWorkers() bool {
	return op.works || !op.mutates() || !strings.Contains(op.path, "{thread}")
}

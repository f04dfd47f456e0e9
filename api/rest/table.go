package rest

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// operations returns all operations under /v1, in the order of /docs: those that people
// use first come first.
func operations() []operation {
	var all []operation
	for _, part := range [][]operation{
		threadOperations(), runOperations(), eventOperations(), workerOperations(), todoOperations(), documentOperations(), kvOperations(),
		decisionOperations(), lockOperations(), fileOperations(), blobOperations(), spaceOperations(), backendOperations(),
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

// tags returns the groups of operations, in the order of /docs.
func tags() []tag {
	return []tag{
		{"threads", "Conversations: create one, post messages, read them"},
		{"runs", "Let an agent answer in a thread, follow it, cancel it"},
		{"events", "Read what happened, watch what happens, add events of your own"},
		{"workers", "For programs that execute runs: claim one, write its turn, finish it"},
		{"todos", "The task list of a thread"},
		{"documents", "JSON documents with versions and patches"},
		{"kv", "Small values by namespace and key"},
		{"decisions", "Actions recorded before they are done, and their outcomes"},
		{"locks", "Who works on what; with fencing tokens"},
		{"files", "The known files of a project, and their changes"},
		{"blobs", "Content by its SHA-256"},
		{"spaces", "The spaces that exist"},
		{"backend", "For other servers and programs that use this one as their store"},
	}
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

// page is a part of a list.
type page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor" doc:"pass it as cursor to get the next page; empty: this is the last one for now"`
}

func pageOf[T any](items []T, next string) page[T] {
	if items == nil {
		items = []T{}
	}
	return page[T]{Items: items, NextCursor: next}
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

// forWorkers reports whether the worker of a run may call the operation in the run's
// thread although that is private.
func (op *operation) forWorkers() bool {
	return op.works || !op.mutates() || !strings.Contains(op.path, "{thread}")
}

package rest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/document"
)

// patching says what a PATCH of a document takes.
const patching = "The body is a merge patch (application/merge-patch+json), a JSON Patch (application/json-patch+json), or {\"ops\": […]}, which increments numbers and appends to lists."

func unfit() []failure {
	return []failure{{journal.ErrConflict, "a test in the patch fails"}, {journal.ErrNotFound, "there is no document to which a JSON Patch applies"}}
}

func documentOperations() []operation {
	const all, item = "/v1/spaces/{space}/documents", "/v1/spaces/{space}/documents/{name...}"
	return []operation{
		{id: "listDocuments", method: "GET", path: all, access: read,
			summary: "List the documents, without their values", does: does(listDocuments)},
		{id: "getDocument", method: "GET", path: item, access: read,
			summary: "Read a document; an absent one has exists false", does: does(getDocument)},
		{id: "putDocument", method: "PUT", path: item, access: write,
			summary: "Replace a document", does: does(putDocument)},
		{id: "patchDocument", method: "PATCH", path: item, access: write,
			summary: "Change a document", about: patching, does: does(patchDocument), failures: unfit()},
		{id: "deleteDocument", method: "DELETE", path: item, access: write,
			summary: "Delete a document; its past stays readable", does: does(deleteDocument)},
	}
}

// stateOperations are those of the document state of a thread.
func stateOperations() []operation {
	const state = "/v1/spaces/{space}/threads/{thread}/state"
	return []operation{
		{id: "getState", method: "GET", path: state, access: read,
			summary: "Read a thread's state", does: does(getState)},
		{id: "putState", method: "PUT", path: state, access: write, works: true,
			summary: "Replace a thread's state", does: does(putState)},
		{id: "patchState", method: "PATCH", path: state, access: write, works: true,
			summary: "Change a thread's state", about: patching, does: does(patchState), failures: unfit()},
	}
}

type ofDocument struct {
	Name string `path:"name" doc:"may hold slashes" example:"settings"`
}

type atPosition struct {
	At journal.Position `query:"at" doc:"as of this position"`
}

// named is a document of a space or a thread, with its name.
type named struct {
	in   *document.Documents
	name string
}

func (in ofDocument) document(c *call) named { return named{document.In(c.space), in.Name} }

// state returns the thread's document "state".
func (in ofThread) state(c *call) named {
	key := threadStream(in.Thread)
	return named{document.Under(c.space, key, key), "state"}
}

func listDocuments(c *call, in paging) (page[document.Info], error) {
	return pageOf(document.In(c.space).List(c.ctx, &document.ListOptions{After: in.Cursor, Limit: in.Limit}))
}

func (n named) get(c *call, in atPosition) (document.Document, error) {
	return n.in.Get(c.ctx, n.name, &document.GetOptions{At: in.At})
}

type getDocumentIn struct {
	ofDocument
	atPosition
}

func getDocument(c *call, in getDocumentIn) (document.Document, error) {
	return in.document(c).get(c, in.atPosition)
}

type getStateIn struct {
	ofThread
	atPosition
}

func getState(c *call, in getStateIn) (document.Document, error) {
	return in.state(c).get(c, in.atPosition)
}

// NewDocument is the body of a PUT of a document.
type NewDocument struct {
	Value json.RawMessage `json:"value" doc:"any JSON" example:"{\"theme\":\"dark\"}"`
}

func (n named) put(c *call, value json.RawMessage, when precondition) (document.Document, error) {
	return n.in.Put(c.ctx, n.name, value, when.options())
}

func (p precondition) options() *document.Options {
	when := p.condition()
	return &document.Options{IfMatch: when.At, IfExists: when.Exists, IfAbsent: when.Absent}
}

type putDocumentIn struct {
	ofDocument
	precondition
	Body NewDocument
}

func putDocument(c *call, in putDocumentIn) (document.Document, error) {
	return in.document(c).put(c, in.Body.Value, in.precondition)
}

type putStateIn struct {
	ofThread
	precondition
	Body NewDocument
}

func putState(c *call, in putStateIn) (document.Document, error) {
	return in.state(c).put(c, in.Body.Value, in.precondition)
}

type deleteDocumentIn struct {
	ofDocument
	ifMatch
}

func deleteDocument(c *call, in deleteDocumentIn) (none, error) {
	n := in.document(c)
	_, err := n.in.Delete(c.ctx, n.name, precondition{ifMatch: in.ifMatch}.options())
	return none{}, err
}

// Ops is a list of changes that the store computes.
type Ops struct {
	Ops []document.Op `json:"ops" min:"1"`
}

// change is a body that changes a document, in one of several media types.
type change struct {
	mediaType string // of a JSON Patch or a merge patch; "": the body is ops
	patch     []byte
	ops       []document.Op
}

var (
	opsShape = newShapes().Of(reflect.TypeFor[Ops]())             // never changed
	anyShape = newShapes().Of(reflect.TypeFor[json.RawMessage]()) // never changed
)

const mergePatch, jsonPatch = "application/merge-patch+json", "application/json-patch+json"

// decodeBody implements ownBody. Plain JSON is a JSON Patch if it is a list, {"ops": …}
// if it has that member, else a merge patch.
func (b *change) decodeBody(c *call) (err error) {
	if err := sane(c.raw); err != nil {
		return err
	}
	if b.mediaType, err = c.mediaType(); err != nil {
		return err
	}
	b.patch = c.raw
	if b.mediaType == "application/json" {
		b.mediaType = mergePatch
		var members map[string]json.RawMessage
		if bytes.HasPrefix(bytes.TrimSpace(c.raw), []byte("[")) {
			b.mediaType = jsonPatch
		} else if json.Unmarshal(c.raw, &members) == nil && members["ops"] != nil {
			var in Ops
			err := decodeShape(c.raw, &in, opsShape)
			b.mediaType, b.ops = "", in.Ops
			return err
		}
	}
	if b.mediaType != mergePatch && b.mediaType != jsonPatch {
		return &statusError{http.StatusUnsupportedMediaType, invalid("Content-Type", "%.80q is no kind of patch that is known here", b.mediaType)}
	}
	return badPart(anyShape.Check(c.raw))
}

// content implements ownBody.
func (*change) content(g *generator) object {
	return object{
		"application/json": object{"schema": object{"anyOf": []any{g.taken(reflect.TypeFor[Ops]()), object{"type": "array"}, object{}},
			"description": "ops; or, of another shape, a JSON Patch if it is a list, else a merge patch"}},
		mergePatch: object{"schema": object{"description": "RFC 7396"}},
		jsonPatch:  object{"schema": object{"type": "array", "items": object{"type": "object"}, "description": "RFC 6902"}},
	}
}

func (n named) change(c *call, by change, when precondition) (document.Document, error) {
	switch by.mediaType {
	case mergePatch:
		return n.in.MergePatch(c.ctx, n.name, by.patch, when.options())
	case jsonPatch:
		return n.in.JSONPatch(c.ctx, n.name, by.patch, when.options())
	}
	return n.in.Apply(c.ctx, n.name, by.ops, when.options())
}

type patchDocumentIn struct {
	ofDocument
	precondition
	Body change
}

func patchDocument(c *call, in patchDocumentIn) (document.Document, error) {
	return in.document(c).change(c, in.Body, in.precondition)
}

type patchStateIn struct {
	ofThread
	precondition
	Body change
}

func patchState(c *call, in patchStateIn) (document.Document, error) {
	return in.state(c).change(c, in.Body, in.precondition)
}

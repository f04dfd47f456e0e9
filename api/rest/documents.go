package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"reflect"

	"github.com/thole-dev/thole/state/document"
)

func documentRoutes() []route {
	const all, item = "/v1/spaces/{space}/documents", "/v1/spaces/{space}/documents/{name...}"
	const state = "/v1/spaces/{space}/threads/{thread}/state"
	at := []oldParam{{"at", "string", "as of this position"}}
	const patching = "application/merge-patch+json, application/json-patch+json, or {\"ops\": […]} with increment and append"
	return []route{
		{method: "GET", path: all, tag: "documents", access: read, query: pagingParams(),
			summary: "List the documents, without their values", do: gives(listDocuments)},
		{method: "GET", path: item, tag: "documents", access: read, etag: true, query: at,
			summary: "Read a document; an absent one has exists false", do: gives(func(c *call) (document.Document, error) { return c.getDocument(c.document()) })},
		{method: "PUT", path: item, tag: "documents", access: write, etag: true,
			summary: "Replace a document", do: takes(func(c *call, in NewDocument) (document.Document, error) { return c.putDocument(in, c.document()) })},
		{method: "PATCH", path: item, tag: "documents", access: write, etag: true,
			summary: "Change a document: " + patching, do: patches(func(c *call) (document.Document, error) { return c.patchDocument(c.document()) })},
		{method: "DELETE", path: item, tag: "documents", access: write, etag: true,
			summary: "Delete a document; its past stays readable", do: gives(deleteDocument)},

		{method: "GET", path: state, tag: "threads", access: read, etag: true, query: at,
			summary: "Read a thread's state", do: gives(func(c *call) (document.Document, error) { return c.getDocument(c.threadState()) })},
		{method: "PUT", path: state, tag: "threads", access: write, works: true, etag: true,
			summary: "Replace a thread's state", do: takes(func(c *call, in NewDocument) (document.Document, error) { return c.putDocument(in, c.threadState()) })},
		{method: "PATCH", path: state, tag: "threads", access: write, works: true, etag: true,
			summary: "Change a thread's state: " + patching, do: patches(func(c *call) (document.Document, error) { return c.patchDocument(c.threadState()) })},
	}
}

// named is a document under its name, in its place.
type named struct {
	in   *document.Documents
	name string
}

func (c *call) document() named { return named{document.In(c.space), c.r.PathValue("name")} }

// threadState is the document state of the thread in the path.
func (c *call) threadState() named {
	key := threadStream(c.r.PathValue("thread"))
	return named{document.Under(c.space, key, key), "state"}
}

func listDocuments(c *call) (page[document.Info], error) {
	limit, err := c.limit(100)
	if err != nil {
		return page[document.Info]{}, err
	}
	p, err := document.In(c.space).List(c.ctx, &document.ListOptions{After: c.arg("cursor"), Limit: limit})
	return pageOf(p.Documents, p.Next), err
}

func (c *call) getDocument(n named) (document.Document, error) {
	at, err := c.position("at")
	if err != nil {
		return document.Document{}, err
	}
	doc, err := n.in.Get(c.ctx, n.name, &document.GetOptions{At: at})
	c.version(doc.Version)
	return doc, err
}

// NewDocument is what a PUT of a document takes.
type NewDocument struct {
	Value json.RawMessage `json:"value" doc:"any JSON"`
}

func (c *call) putDocument(in NewDocument, n named) (document.Document, error) {
	if in.Value == nil {
		return document.Document{}, invalid("value", "is missing")
	}
	return c.changeDocument(func(o *document.Options) (document.Document, error) {
		return n.in.Put(c.ctx, n.name, in.Value, o)
	})
}

// changeDocument makes a change under the request's precondition.
func (c *call) changeDocument(change func(*document.Options) (document.Document, error)) (document.Document, error) {
	when, err := c.condition()
	if err != nil {
		return document.Document{}, err
	}
	doc, err := change(&document.Options{IfMatch: when.At, IfExists: when.Exists, IfAbsent: when.Absent})
	c.version(doc.Version)
	return doc, err
}

func deleteDocument(c *call) (none, error) {
	n := c.document()
	_, err := c.changeDocument(func(o *document.Options) (document.Document, error) {
		if o.IfAbsent {
			return document.Document{}, invalid("If-None-Match", "makes no sense on a DELETE")
		}
		_, err := n.in.Delete(c.ctx, n.name, o)
		return document.Document{}, err
	})
	return none{}, err
}

// Ops is a change that is computed in the store.
type Ops struct {
	Ops []document.Op `json:"ops"`
}

// patches makes an endpoint whose body is one of several kinds of patch.
func patches(fn func(*call) (document.Document, error)) endpoint {
	e := gives(fn)
	e.patch, e.shape = true, newShapes().Of(reflect.TypeFor[Ops]())
	return e
}

// patchDocument applies the body as its media type says. Plain JSON is a JSON
// Patch if it is a list, {"ops": …} if it has that member alone, else a merge
// patch.
func (c *call) patchDocument(n named) (document.Document, error) {
	var none document.Document
	if err := sane(c.raw); err != nil {
		return none, err
	}
	if err := badPart(newShapes().Of(reflect.TypeFor[json.RawMessage]()).Check(c.raw)); err != nil {
		return none, err
	}
	mediaType := "application/json"
	if ct := c.r.Header.Get("Content-Type"); ct != "" {
		var err error
		if mediaType, _, err = mime.ParseMediaType(ct); err != nil {
			return none, invalid("Content-Type", "%.80q is not a media type", ct)
		}
	}
	// The other is what curl -d says of whatever it sends.
	if mediaType == "application/json" || mediaType == "application/x-www-form-urlencoded" {
		mediaType = "application/merge-patch+json"
		var members map[string]json.RawMessage
		if bytes.HasPrefix(bytes.TrimSpace(c.raw), []byte("[")) {
			mediaType = "application/json-patch+json"
		} else if json.Unmarshal(c.raw, &members) == nil && len(members) == 1 && members["ops"] != nil {
			mediaType = "ops"
		}
	}
	switch mediaType {
	case "application/merge-patch+json":
		return c.changeDocument(func(o *document.Options) (document.Document, error) {
			return n.in.MergePatch(c.ctx, n.name, c.raw, o)
		})
	case "application/json-patch+json":
		return c.changeDocument(func(o *document.Options) (document.Document, error) {
			return n.in.JSONPatch(c.ctx, n.name, c.raw, o)
		})
	case "ops":
		var in Ops
		if err := decodeShape(c.raw, &in, c.route.do.shape); err != nil {
			return none, err
		}
		if err := noNullBy(c.raw); err != nil {
			return none, err
		}
		return c.changeDocument(func(o *document.Options) (document.Document, error) {
			return n.in.Apply(c.ctx, n.name, in.Ops, o)
		})
	}
	return none, &statusError{http.StatusUnsupportedMediaType, invalid("Content-Type", "%.80q is no kind of patch that is known here", mediaType)}
}

// noNullBy refuses a null to add: a client that computed nothing would add 1.
func noNullBy(body []byte) error {
	var in struct {
		Ops []struct {
			By json.RawMessage `json:"by"`
		} `json:"ops"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	for i, op := range in.Ops {
		if string(op.By) == "null" {
			return invalid(fmt.Sprintf("ops[%d].by", i), "is null, a number is expected; left out it is 1")
		}
	}
	return nil
}

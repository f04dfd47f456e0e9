// Package apifuzz calls everything that a running server's OpenAPI document offers,
// with valid and with almost valid requests, and checks each answer against the
// document. It knows the server only by HTTP.
package apifuzz

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// operation is an operation of the document.
type operation struct {
	name      string // method and path
	method    string
	path      string
	params    []param
	bodies    map[string]schema             // of the request, by media type
	requests  map[string]*jsonschema.Schema // the same, to check with
	optional  bool                          // the body may be left out
	responses map[string]map[string]*jsonschema.Schema
}

type param struct {
	Name     string `json:"name"`
	In       string `json:"in"`
	Required bool   `json:"required"`
	Schema   schema `json:"schema"`
}

// schema is a JSON schema from which values are made.
type schema map[string]any

// document is a server's OpenAPI document.
type document struct {
	operations []*operation
	schemas    map[string]any // components/schemas
}

const documentURL = "http://document/openapi.json"

// load reads a server's document.
func load(ctx context.Context, base string) (*document, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/openapi.json", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return parse(data)
}

func parse(data []byte) (*document, error) {
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(documentURL, tree); err != nil {
		return nil, err
	}
	var raw struct {
		Paths map[string]map[string]struct {
			Parameters  []param `json:"parameters"`
			RequestBody *struct {
				Required bool                               `json:"required"`
				Content  map[string]struct{ Schema schema } `json:"content"`
			} `json:"requestBody"`
			Responses map[string]struct {
				Ref     string                             `json:"$ref"`
				Content map[string]struct{ Schema schema } `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
		Components struct {
			Schemas   map[string]any `json:"schemas"`
			Responses map[string]struct {
				Content map[string]struct{ Schema schema } `json:"content"`
			} `json:"responses"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	d := &document{schemas: raw.Components.Schemas}
	for path, methods := range raw.Paths {
		for method, o := range methods {
			op := &operation{
				method: strings.ToUpper(method), path: path, params: o.Parameters,
				bodies: make(map[string]schema), requests: make(map[string]*jsonschema.Schema), responses: make(map[string]map[string]*jsonschema.Schema),
			}
			op.name = op.method + " " + path
			if o.RequestBody != nil {
				op.optional = !o.RequestBody.Required
				for mediaType, m := range o.RequestBody.Content {
					op.bodies[mediaType] = m.Schema
					if m.Schema == nil {
						continue
					}
					s, err := c.Compile(documentURL + fmt.Sprintf("#/paths/%s/%s/requestBody/content/%s/schema", escape(path), method, escape(mediaType)))
					if err != nil {
						return nil, fmt.Errorf("%s: %w", op.name, err)
					}
					op.requests[mediaType] = s
				}
			}
			for status, r := range o.Responses {
				at, content := fmt.Sprintf("#/paths/%s/%s/responses/%s", escape(path), method, status), r.Content
				if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); ok {
					at, content = "#/components/responses/"+escape(name), raw.Components.Responses[name].Content
				}
				op.responses[status] = make(map[string]*jsonschema.Schema)
				for mediaType, m := range content {
					op.responses[status][mediaType] = nil
					if m.Schema == nil {
						continue
					}
					s, err := c.Compile(documentURL + at + "/content/" + escape(mediaType) + "/schema")
					if err != nil {
						return nil, fmt.Errorf("%s: %w", op.name, err)
					}
					op.responses[status][mediaType] = s
				}
			}
			d.operations = append(d.operations, op)
		}
	}
	slices.SortFunc(d.operations, func(a, b *operation) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return d, nil
}

// escape writes a name as a part of a JSON pointer in a URL's fragment.
func escape(s string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", "{", "%7B", "}", "%7D").Replace(s)
}

// resolve follows a reference.
func (d *document) resolve(s schema) schema {
	ref, _ := s["$ref"].(string)
	if name, ok := strings.CutPrefix(ref, "#/components/schemas/"); ok {
		to, _ := d.schemas[name].(map[string]any)
		return d.resolve(to)
	}
	return s
}

// took reports what the document does not allow in the body of a request that was
// accepted.
func (o *operation) took(contentType string, body []byte) error {
	mediaType, _, _ := strings.Cut(contentType, ";")
	s := o.requests[mediaType]
	if s == nil || len(body) == 0 {
		return nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("a body was accepted that is not JSON: %v in %.300q", err, body)
	}
	if err := s.Validate(v); err != nil {
		return fmt.Errorf("a body was accepted that does not fit its schema: %v in %.300s", err, body)
	}
	return nil
}

// check reports what the document does not say about an answer.
func (o *operation) check(status int, contentType string, body []byte) error {
	content, ok := o.responses[fmt.Sprint(status)]
	if !ok { // the default is for statuses that say nothing about the request
		return fmt.Errorf("status %d is not in the document: %.300s", status, body)
	}
	mediaType, _, _ := strings.Cut(contentType, ";")
	if len(content) == 0 {
		if len(body) > 0 {
			return fmt.Errorf("%d has a body of %q, the document has none", status, contentType)
		}
		return nil
	}
	s, ok := content[mediaType]
	if !ok {
		return fmt.Errorf("%d has the content type %q, which is not in the document", status, contentType)
	}
	if s == nil || !strings.HasSuffix(mediaType, "json") {
		return nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%d is not JSON: %v in %.300q", status, err, body)
	}
	if err := s.Validate(v); err != nil {
		return fmt.Errorf("%d does not fit its schema: %v in %.300s", status, err, body)
	}
	return nil
}

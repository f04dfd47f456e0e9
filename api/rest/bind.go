package rest

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/shape"
)

// Nothing in a request is ignored. Before a handler runs, everything that the request
// gives is either bound to a field of the handler's input or refused by name.

// checkQuery refuses query parameters that the operation does not have, or that are
// given twice or empty: a typing error must not silently read something else.
func (c *call) checkQuery() error {
	if c.r.URL.RawQuery == "" {
		return nil
	}
	var err error
	if c.query, err = url.ParseQuery(c.r.URL.RawQuery); err != nil {
		return invalid("query", "cannot be read: %v", err)
	}
	for name, values := range c.query {
		p := c.takes.param("query", name)
		switch {
		case p == nil && c.op.isStream() && c.op.streams.param("query", name) != nil:
			return invalid(name, "is for event streams (Accept: text/event-stream)")
		case p == nil && c.op.does.param("query", name) != nil:
			return invalid(name, "is for pages, not for event streams")
		case p == nil:
			return invalid(brief(name), "%s", shape.Unknown(name, c.takes.names("query")))
		case len(values) > 1:
			return invalid(name, "is given %d times", len(values))
		case values[0] == "" && p.empty == "":
			return invalid(name, "is empty; leave it out if there is nothing to say")
		}
	}
	return nil
}

// checkHeaders refuses headers with preconditions and cursors that the operation does
// not honour, or that are given twice or empty.
func (c *call) checkHeaders() error {
	for _, name := range []string{"If-Match", "If-None-Match", "Last-Event-ID", "Idempotency-Key"} {
		values := c.r.Header[http.CanonicalHeaderKey(name)]
		switch {
		case len(values) == 0:
		case len(values) > 1:
			return invalid(name, "is given %d times", len(values))
		case values[0] == "":
			return invalid(name, "is empty; leave it out if there is nothing to say")
		case name == "Idempotency-Key" || c.takes.param("header", name) != nil:
		case name == "If-None-Match" && c.op.reads() && c.op.version != nil:
			return checkTags(values[0])
		default:
			return invalid(name, "is of no effect here; see /docs")
		}
	}
	if c.r.Header["If-Match"] != nil && c.r.Header["If-None-Match"] != nil {
		return invalid("If-Match", "and If-None-Match exclude each other")
	}
	return nil
}

// bind sets v, the handler's input, from the request.
func (c *call) bind(v reflect.Value) error {
	for _, p := range c.takes.params {
		if err := c.bindParam(p, v.FieldByIndex(p.Index)); err != nil {
			return err
		}
	}
	if c.takes.body == nil {
		return c.noBody()
	}
	return c.bindBody(c.takes.body, v.FieldByIndex(c.takes.body.index))
}

func (c *call) bindParam(p *param, v reflect.Value) error {
	var values []string
	switch p.in {
	case "path":
		v.SetString(c.r.PathValue(p.Name))
		return nil
	case "query":
		values = c.query[p.Name]
	case "header":
		if f, ok := v.Addr().Interface().(*thole.Fence); ok {
			if len(c.fences) != 1 {
				return invalid(p.Name, "must hold one token here")
			}
			*f = c.fences[0]
			return nil
		}
		values = c.r.Header[http.CanonicalHeaderKey(p.Name)]
	}
	text := p.Default
	if len(values) > 0 {
		text = values[0]
	}
	switch {
	case len(values) == 0 && p.Required:
		return invalid(p.Name, "is missing")
	case len(values) == 0 && p.Default == "":
		return nil
	case text == "": // allowed: see checkQuery
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return nil
	}
	if err := p.Parse(text, v); err != nil {
		return invalid(p.Name, "%v", err)
	}
	return nil
}

// noBody refuses a request that has a body.
func (c *call) noBody() error {
	if c.r.ContentLength == 0 || c.r.Body == nil || c.r.Body == http.NoBody {
		return nil
	}
	if c.r.ContentLength < 0 {
		if _, err := io.ReadFull(c.r.Body, make([]byte, 1)); err == io.EOF {
			return nil
		}
	}
	return invalid("body", "is not taken here")
}

func (c *call) bindBody(b *body, v reflect.Value) error {
	if b.shape == nil {
		v.Set(reflect.ValueOf(c.r.Body))
		return nil
	}
	if own, ok := v.Addr().Interface().(ownBody); ok {
		return own.decodeBody(c)
	}
	if err := c.isJSON(); err != nil {
		return err
	}
	raw := c.raw
	if b.optional && len(raw) == 0 {
		raw = []byte("{}")
	}
	return decodeShape(raw, v.Addr().Interface(), b.shape)
}

// pointerTo returns the JSON Pointer to a part of the request's body; both are given by
// their address: see [shape.Shape.PointerTo].
func (c *call) pointerTo(body, part any) string { return c.takes.body.shape.PointerTo(body, part) }

// ownBody is a body that is not just JSON of one shape, and decodes itself.
type ownBody interface {
	decodeBody(*call) error
	content(*generator) object // the body's schemas by media type, for the OpenAPI document
}

// isJSON refuses a body whose Content-Type is not JSON.
func (c *call) isJSON() error {
	if mediaType, err := c.mediaType(); err != nil || mediaType == "application/json" {
		return err
	}
	return &statusError{http.StatusUnsupportedMediaType, invalid("Content-Type", "%.80q is not application/json", c.r.Header.Get("Content-Type"))}
}

// mediaType returns the media type of the body. It is application/json if the request
// names none, or the type of forms, which curl -d names by default.
func (c *call) mediaType() (string, error) {
	values := c.r.Header["Content-Type"]
	if len(values) == 0 {
		return "application/json", nil
	}
	mediaType, params, err := mime.ParseMediaType(values[0])
	switch {
	case len(values) > 1:
		return "", invalid("Content-Type", "is given %d times", len(values))
	case err != nil:
		return "", invalid("Content-Type", "%.80q is not a media type", values[0])
	case params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8"):
		return "", &statusError{http.StatusUnsupportedMediaType, invalid("Content-Type", "%.80q is not UTF-8", values[0])}
	case mediaType == "application/x-www-form-urlencoded":
		return "application/json", nil
	}
	return mediaType, nil
}

package apifuzz

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// request is a request to be sent.
type request struct {
	op      *operation
	recipe  recipe
	about   fact
	method  string
	path    string // escaped
	query   []string
	header  http.Header
	body    []byte
	valid   bool // nothing is wrong on purpose
	routed  bool // the path still leads to the operation
	stream  bool
	sending sending
}

// sending is the way in which a request is sent.
type sending int

const (
	whole  sending = iota
	halved         // the connection is closed during the body
	slow           // one byte at a time
)

// make returns a request for an operation, valid as far as is known; nil if no fact is
// known that it could be about.
func (c *client) make(op *operation, take bool) *request {
	rc := recipeOf(c.recipes, op)
	about := fact{"space": c.space(), "token": c.Tokens[0]}
	if rc.needs != "" {
		if about = c.memory.recall(c.rand, rc.needs, take && rc.takes); about == nil {
			return nil
		}
	}
	if p := c.memory.recall(c.rand, "position "+about["space"], false); p != nil {
		about = about.with("position", p["position"])
	}
	content := fmt.Sprintf("content %d", c.rand.IntN(1000))
	path := op.path
	for _, p := range op.params {
		if p.In != "path" {
			continue
		}
		v, known := about[p.Name]
		switch {
		case known:
		case p.Name == "sha256":
			v = hash(content)
		case p.Name == "path":
			v = fmt.Sprintf("%s/%d.txt", name(c.rand), c.rand.IntN(1000))
		default:
			v = name(c.rand)
		}
		about = about.with(p.Name, v)
		path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(v))
	}
	r := &request{op: op, recipe: rc, about: about, method: op.method, path: path, header: make(http.Header), valid: true, routed: true}
	r.header.Set("Authorization", "Bearer "+about["token"])
	c.parameters(r)
	if _, ranges := op.responses["206"]; ranges && c.rand.IntN(4) == 0 {
		r.header.Set("Range", pick(c.rand, "bytes=0-", "bytes=2-3", "bytes=-2", "bytes=0-0,2-3"))
	}
	if rc.fence {
		r.header.Set("Thole-Fence", about["fence"])
	}
	c.fill(r, content)
	return r
}

// parameters puts some of the query's parameters into a request.
func (c *client) parameters(r *request) {
	cursor := ""
	if f := c.memory.recall(c.rand, "cursor "+r.op.name, false); f != nil && f["space"] == r.about["space"] && f["thread"] == r.about["thread"] {
		cursor = f["cursor"]
	}
	for _, p := range r.op.params {
		if p.In != "query" || p.Name != "watch" && c.rand.IntN(5) > 0 {
			continue
		}
		if v := queryValue(c.rand, p, r.about, cursor); v != "" {
			r.query = append(r.query, url.QueryEscape(p.Name)+"="+url.QueryEscape(v))
		}
	}
	streams := false
	for _, content := range r.op.responses {
		_, ok := content["text/event-stream"]
		streams = streams || ok
	}
	if _, pages := r.op.responses["200"]["application/json"]; streams && (c.rand.IntN(5) == 0 || !pages && r.op.method == http.MethodGet) {
		r.stream = true
		r.header.Set("Accept", "text/event-stream")
	}
}

// fill gives a request its body.
func (c *client) fill(r *request, content string) {
	if c.Special != nil {
		if body, header := c.Special(r.op.name, r.about["space"], c.rand); body != nil {
			r.body = body
			for k, v := range header {
				r.header.Set(k, v)
			}
			return
		}
	}
	if len(r.op.bodies) == 0 {
		return
	}
	if _, patch := r.op.bodies["application/merge-patch+json"]; patch {
		mediaType, body := patchBody(c.rand)
		r.body = encode(body)
		r.header.Set("Content-Type", mediaType)
		return
	}
	if s, ok := r.op.bodies["application/json"]; ok {
		r.header.Set("Content-Type", "application/json")
		if r.recipe.body != nil {
			r.body = encode(r.recipe.body(c.rand, r.about))
		} else {
			r.body = encode(c.document.value(c.rand, s, 0))
		}
		return
	}
	r.header.Set("Content-Type", "application/octet-stream")
	r.body = []byte(content)
}

func (c *client) space() string {
	return fmt.Sprintf("%s:s%d", pick(c.rand, "project", "user"), c.rand.IntN(c.Spaces))
}

// mutate makes one or two things wrong.
func (c *client) mutate(r *request) {
	r.valid = false
	for range 1 + c.rand.IntN(2) {
		c.mutateOnce(r)
	}
}

func (c *client) mutateOnce(r *request) {
	evil := evilText(c.rand)
	switch c.rand.IntN(16) {
	case 0, 1, 2, 3, 4:
		if len(r.body) > 0 {
			r.body = mutateJSON(c.rand, r.body)
		}
	case 5:
		if s, ok := r.op.bodies["application/json"]; ok { // as the schema says, whether it makes sense or not
			r.body = encode(c.document.value(c.rand, s, 0))
		}
	case 6:
		var names []string
		for _, p := range r.op.params {
			if p.In == "path" {
				names = append(names, p.Name)
			}
		}
		if len(names) > 0 {
			escaped := url.PathEscape(evil)
			if c.rand.IntN(6) == 0 {
				escaped = strings.Map(printable, evil)
			}
			r.routed = false
			r.path = strings.Replace(r.path, url.PathEscape(r.about[pick(c.rand, names...)]), escaped, 1)
		}
	case 7, 8:
		if len(r.op.params) > 0 {
			p := r.op.params[c.rand.IntN(len(r.op.params))]
			r.query = append(r.query, url.QueryEscape(p.Name)+"="+url.QueryEscape(evil))
		}
	case 9:
		r.query = append(r.query, pick(c.rand, "unknown=1", "limit=", "limit=1&limit=2", "%zz=1", "a;b", "=", "limit=-0", "at=%00", "cursor="+url.QueryEscape(c.foreign("cursor "+c.any().name, "cursor"))))
	case 10:
		r.header.Set("If-Match", pick(c.rand, "*", `""`, "x", `"x"`, c.foreign("etag", "etag"), c.foreign("etag", "etag")+", "+c.foreign("etag", "etag")))
	case 11:
		r.header.Set("If-None-Match", pick(c.rand, "*", `""`, c.foreign("etag", "etag"), evil))
	case 12:
		r.header.Set("Thole-Fence", pick(c.rand, c.foreign("claimed", "fence"), c.foreign("lock", "fence"), c.foreign("lock", "fence")+","+c.foreign("claimed", "fence"), evil, ","))
	case 13:
		if _, ranges := r.op.responses["206"]; ranges {
			r.header.Set("Range", pick(c.rand, "bytes=100-", "bytes=5-2", "lines=1-2", evil))
			return
		}
		r.header.Set(pick(c.rand, "Content-Type", "Accept", "Content-Encoding", "Last-Event-ID", "Range", "X-Request-Id", "Traceparent", "Authorization", "Idempotency-Key", "Origin"),
			pick(c.rand, evil, "text/html", "application/json; charset=utf-16", "gzip", "bytes=100-", "bytes=5-2", "bytes=0-0,2-3", "Bearer tok_x.y", "application/xml"))
	case 14:
		r.method = pick(c.rand, "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE")
		r.routed = r.routed && r.method == r.op.method
	case 15:
		switch c.rand.IntN(8) {
		case 0:
			r.sending = halved
		case 1:
			r.sending = slow
		case 2:
			r.body = []byte(`"` + strings.Repeat("x", 6<<20) + `"`)
		default:
			r.header.Set("Authorization", "Bearer "+pick(c.rand, c.Tokens...))
		}
	}
}

// foreign returns a value that was learned about something else, or an invented one.
func (c *client) foreign(kind, name string) string {
	if f := c.memory.recall(c.rand, kind, false); f != nil {
		return f[name]
	}
	return "none"
}

func (c *client) any() *operation {
	return c.document.operations[c.rand.IntN(len(c.document.operations))]
}

func printable(r rune) rune {
	if r <= ' ' || r >= 0x7f || r == '?' || r == '#' || r == '%' {
		return 'p'
	}
	return r
}

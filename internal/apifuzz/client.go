package apifuzz

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// client sends one request after another.
type client struct {
	*Config
	document *document
	memory   *memory
	recipes  []recipe
	report   *Report
	rand     *rand.Rand
	http     *http.Client
}

// run sends requests until ctx ends.
func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		op := c.any()
		if c.rand.IntN(2) == 0 {
			op = c.report.rarest()
		}
		valid := c.rand.IntN(5) < 3
		r := c.prepare(ctx, op, valid, 4)
		if r == nil {
			continue
		}
		if !valid {
			c.mutate(r)
		} else if r.method != http.MethodGet && c.rand.IntN(4) == 0 {
			r.header.Set("Idempotency-Key", fmt.Sprint("k", c.rand.Uint64()))
			c.send(ctx, r)
			r.valid = false // a repeat may fail
			r.recipe.learn = nil
		}
		c.send(ctx, r)
	}
}

// prepare makes a request, and first what it needs.
func (c *client) prepare(ctx context.Context, op *operation, take bool, depth int) *request {
	if r := c.make(op, take); r != nil || depth == 0 {
		return r
	}
	needs := recipeOf(c.recipes, op).needs
	for _, maker := range c.document.operations {
		if rc := recipeOf(c.recipes, maker); rc.makes != "" && rc.makes == needs {
			if r := c.prepare(ctx, maker, true, depth-1); r != nil {
				r.stream = false
				r.header.Del("Accept")
				c.send(ctx, r)
			}
			break
		}
	}
	return c.make(op, take)
}

// send sends a request and judges the answer.
func (c *client) send(ctx context.Context, r *request) {
	if r.sending != whole {
		c.sendRaw(r)
		return
	}
	start := time.Now()
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*c.Slow) // a request that was sent is answered, although the time is over
	defer cancel()
	target := c.URL + r.path
	if len(r.query) > 0 {
		target += "?" + strings.Join(r.query, "&")
	}
	req, err := http.NewRequestWithContext(asking, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return // no client could send it
	}
	req.Header = r.header
	resp, err := c.http.Do(req)
	if err != nil {
		if unsendable(err) || ctx.Err() != nil || len(r.body) > 5<<20 { // a server that refuses a huge body closes the connection
			return
		}
		c.report.fail(r, "no answer in %v: %v", time.Since(start), err)
		return
	}
	defer resp.Body.Close()
	var body []byte
	if mediaType := resp.Header.Get("Content-Type"); strings.HasPrefix(mediaType, "text/event-stream") {
		timer := time.AfterFunc(30*time.Millisecond, cancel)
		body, _ = io.ReadAll(resp.Body)
		timer.Stop()
	} else if body, err = io.ReadAll(resp.Body); err != nil {
		if ctx.Err() == nil && len(r.body) <= 5<<20 {
			c.report.fail(r, "the answer broke off: %v", err)
		}
		return
	}
	if took := time.Since(start); took > c.Slow && ctx.Err() == nil {
		c.report.fail(r, "took %v", took)
	}
	c.judge(r, resp, body)
}

// judge checks an answer and learns from it.
func (c *client) judge(r *request, resp *http.Response, body []byte) {
	status, mediaType := resp.StatusCode, resp.Header.Get("Content-Type")
	if r.routed {
		c.report.count(r, status, body)
	}
	if status >= 500 && status != http.StatusNotImplemented {
		c.report.fail(r, "%d %.500s", status, body)
		return
	}
	switch {
	case r.method == http.MethodHead || !r.routed && status < 400:
		return
	case r.routed:
		if err := r.op.check(status, mediaType, body); err != nil {
			c.report.fail(r, "%v", err)
			return
		}
		if status < 300 {
			if err := r.op.took(r.header.Get("Content-Type"), r.body); err != nil {
				c.report.fail(r, "%v", err)
			}
		}
	}
	if status >= 400 {
		if err := c.problem(status, mediaType, body); err != nil {
			c.report.fail(r, "%v", err)
		}
		if r.valid && status != http.StatusForbidden && r.recipe.needs != "" {
			c.lost(r, status)
		}
		return
	}
	if !r.routed || strings.HasPrefix(mediaType, "text/event-stream") {
		return
	}
	var answer map[string]any
	json.Unmarshal(body, &answer) // nothing, if it is not JSON
	learnGeneral(c.memory, r.op, r.about, resp.Header.Get("ETag"), answer)
	if r.recipe.learn != nil && r.valid {
		r.recipe.learn(c.memory, r.about, answer)
	}
}

// lost forgets the facts of a thing that no longer exists.
func (c *client) lost(r *request, status int) {
	for _, name := range []string{"block", "turn", "run", "todo", "decision", "name", "thread"} {
		if v := r.about[name]; v != "" && (status == http.StatusNotFound || status == http.StatusConflict) {
			c.memory.forget(r.recipe.needs, name, v)
			return
		}
	}
}

// problem checks what all errors have in common.
func (c *client) problem(status int, mediaType string, body []byte) error {
	var p struct {
		Type, Title, Code string
		Status            int
	}
	switch err := json.Unmarshal(body, &p); {
	case mediaType != "application/problem+json":
		return fmt.Errorf("%d has the content type %q: %.300q", status, mediaType, body)
	case err != nil:
		return fmt.Errorf("%d is no problem: %v in %.300q", status, err, body)
	case p.Status != status || p.Code == "" || p.Type == "" || p.Title == "":
		return fmt.Errorf("%d is not a whole problem: %.300s", status, body)
	}
	return nil
}

// sendRaw sends a request as over a bad connection.
func (c *client) sendRaw(r *request) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return
	}
	conn, err := net.DialTimeout("tcp", u.Host, c.Slow)
	if err != nil {
		c.report.fail(r, "no connection: %v", err)
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(c.Slow))
	var head strings.Builder
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n", r.method, strings.Map(printable, r.path), u.Host, len(r.body))
	if auth := r.header.Get("Authorization"); !strings.ContainsAny(auth, "\r\n") {
		fmt.Fprintf(&head, "Authorization: %s\r\n", auth)
	}
	head.WriteString("\r\n")
	data := append([]byte(head.String()), r.body...)
	if r.sending == halved {
		conn.Write(data[:c.rand.IntN(len(data))])
		return
	}
	for part := range slices.Chunk(data, 1+len(data)/50) {
		if _, err := conn.Write(part); err != nil {
			return
		}
	}
	answer, _ := io.ReadAll(io.LimitReader(conn, 1<<16))
	if line, _, _ := strings.Cut(string(answer), "\r\n"); strings.HasPrefix(line, "HTTP/1.1 5") && !strings.HasPrefix(line, "HTTP/1.1 501") {
		c.report.fail(r, "%s", line)
	}
}

// unsendable reports whether net/http itself refused to send a request.
func unsendable(err error) bool {
	for _, s := range []string{"invalid header", "net/http: invalid", "invalid method", "context canceled", "malformed"} {
		if strings.Contains(err.Error(), s) {
			return true
		}
	}
	return errors.Is(err, context.Canceled)
}

package rest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
)

// call is one request on its way through a handler.
type call struct {
	api   *API
	route *route
	w     http.ResponseWriter
	r     *http.Request
	ctx   context.Context // the request's, with its idempotency key
	id    string          // sess_…
	actor string
	token *auth.Token  // nil: everything is allowed
	space *thole.Space // of {space}: acts as the caller, because of this request
	scope auth.Scope   // what the caller may see of it
	query url.Values   // see [call.args]
	raw   []byte       // the body
	code  int          // status of success, if not the route's
}

// admit checks who calls and whether they may, and prepares the call.
func (c *call) admit() error {
	if err := c.identify(); err != nil {
		return err
	}
	if err := c.api.limiter.allow(c.callerKey()); err != nil {
		return err
	}
	if err := c.knownQuery(); err != nil {
		return err
	}
	if h := c.r.Header; c.route.mutates() && !c.route.etag && (h.Get("If-Match") != "" || h.Get("If-None-Match") != "") {
		return invalid("If-Match", "is of no effect here; see /docs")
	}
	name := c.r.PathValue("space")
	if name != "" {
		if err := c.enter(name); err != nil {
			return err
		}
	}
	if c.route.mutates() && !c.route.do.binary {
		if err := c.readBody(); err != nil {
			return err
		}
	}
	return c.enterThread() // which a repeat may, although its token is old
}

// readBody reads the request's body and what stands for the request.
func (c *call) readBody() (err error) {
	if c.raw, err = readBody(c.w, c.r, c.api.opts.MaxBody); err != nil {
		return err
	}
	if key := c.r.Header.Get("Idempotency-Key"); key != "" {
		if len(key) > 256 {
			return invalid("Idempotency-Key", "has more than 256 bytes")
		}
		sum := sha256.New()
		fmt.Fprintf(sum, "%s %s\n", c.r.Method, c.r.URL.RequestURI())
		sum.Write(c.raw)
		c.ctx = thole.WithIdempotencyKey(c.ctx, key, hex.EncodeToString(sum.Sum(nil)[:16]))
	}
	return nil
}

// identify finds out who calls.
func (c *call) identify() error {
	if c.api.opts.Auth == nil {
		c.actor = "user:local"
		if a := c.r.Header.Get("Thole-Actor"); a != "" {
			if len(a) > thole.MaxNameBytes || strings.ContainsFunc(a, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }) {
				return invalid("Thole-Actor", "is not a name of at most %d bytes", thole.MaxNameBytes)
			}
			c.actor = a
		}
		return nil
	}
	if c.route.access == public {
		return nil
	}
	scheme, secret, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return fmt.Errorf("%w: send a token as Authorization: Bearer …", auth.ErrUnauthorized)
	}
	token, err := c.api.opts.Auth.Authenticate(c.ctx, strings.TrimSpace(secret))
	if err != nil {
		return err
	}
	c.token, c.actor = &token, token.Actor
	return nil
}

// enter checks the grant on a space and makes c.space the handle on it.
func (c *call) enter(name string) error {
	scope, err := c.allowed(name, auth.Access(c.route.access))
	if err != nil {
		return err
	}
	if scope.Narrowed && !c.route.scoped && !scope.Thread(c.r.PathValue("thread")) {
		return fmt.Errorf("%w: the token is for other threads of %.80s", ErrForbidden, name)
	}
	c.scope = scope
	c.space = c.handle(name)
	fences, err := parseFences(c.r.Header.Values("Thole-Fence"))
	if err != nil {
		return err
	}
	for _, f := range fences {
		c.space = c.space.Under(f)
	}
	return nil
}

func (c *call) handle(name string) *thole.Space {
	return c.api.store.Space(name).As(c.actor).Because(cause(c.id, c.r.Header))
}

// allowed returns what the caller may see of a space, or ErrForbidden.
func (c *call) allowed(space string, need auth.Access) (auth.Scope, error) {
	if c.token == nil {
		return auth.Scope{}, nil
	}
	scope, ok := auth.Allows(c.token.Grants, space, need)
	if !ok {
		return auth.Scope{}, fmt.Errorf("%w: no %s grant on %.80s", ErrForbidden, need, space)
	}
	return scope, nil
}

// isAdmin reports whether the caller has an admin grant on the call's space.
func (c *call) isAdmin() bool {
	_, err := c.allowed(c.space.Name(), auth.Admin)
	return err == nil
}

func (c *call) callerKey() string {
	if c.token != nil {
		return c.token.ID
	}
	host, _, err := net.SplitHostPort(c.r.RemoteAddr)
	if err != nil {
		return c.r.RemoteAddr
	}
	return host
}

// answer writes what a handler returned.
func (c *call) answer(v any) error {
	if _, done := v.(sent); done {
		return nil
	}
	status := c.route.success()
	if c.code != 0 {
		status = c.code
	}
	h := c.w.Header()
	h.Set("Cache-Control", "no-cache")
	if c.r.Method == http.MethodGet || c.r.Method == http.MethodHead {
		if tag := h.Get("ETag"); tag != "" && matchesTag(c.r.Header.Get("If-None-Match"), tag) {
			c.w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	if _, nothing := v.(none); nothing {
		c.w.WriteHeader(status)
		return nil
	}
	body, err := marshal(v)
	if err != nil {
		return err
	}
	h.Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	c.w.Write(body)
	return nil
}

// created makes the answer a 201, with the place of what was made.
func (c *call) created(parts ...string) {
	c.code = http.StatusCreated
	if len(parts) > 0 {
		c.w.Header().Set("Location", spacePath(c.space.Name(), parts...))
	}
}

func spacePath(space string, parts ...string) string {
	var b strings.Builder
	b.WriteString("/v1/spaces/" + url.PathEscape(space))
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}

// marshal is JSON as we send it: without HTML escapes, with a final newline.
func marshal(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

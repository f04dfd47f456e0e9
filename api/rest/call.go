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
	"strconv"
	"strings"
	"time"

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
	name := c.r.PathValue("space")
	if name != "" {
		if err := c.enter(name); err != nil {
			return err
		}
	}
	if !c.route.mutates() || c.route.do.binary {
		return nil
	}
	var err error
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
	return c.enterThread()
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

// knownQuery reports parameters that the route does not have: a typo in one must
// not silently read something else.
func (c *call) knownQuery() error {
	if _, err := url.ParseQuery(c.r.URL.RawQuery); err != nil {
		return invalid("query", "cannot be read: %v", err)
	}
	for name := range c.query {
		if !c.route.declares(name) {
			return invalid(brief(name), "is no parameter here; see /docs")
		}
	}
	return nil
}

// Query parameters. A value that cannot be read is ErrInvalid, naming it.

// args returns the values of a parameter of the route. One that the route does
// not declare could never be given, so asking for it is a bug.
func (c *call) args(name string) []string {
	if !c.route.declares(name) {
		panic(fmt.Sprintf("%s %s does not declare its parameter %s", c.route.method, c.route.path, name))
	}
	return c.query[name]
}

// arg returns the first value of a parameter; "" when it is absent.
func (c *call) arg(name string) string {
	if all := c.args(name); len(all) > 0 {
		return all[0]
	}
	return ""
}

func (c *call) has(name string) bool { return len(c.args(name)) > 0 }

func (c *call) limit(def int) (int, error) {
	s := c.arg("limit")
	if s == "" {
		return def, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, invalid("limit", "%.40q is not a number from 1 to %d", s, thole.MaxPage)
	}
	return min(n, thole.MaxPage), nil
}

func (c *call) position(name string) (thole.Position, error) {
	p, err := thole.ParsePosition(c.arg(name))
	if err != nil {
		return p, invalid(name, "%.60q is not a position", c.arg(name))
	}
	return p, nil
}

func (c *call) time(name string) (time.Time, error) {
	s := c.arg(name)
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return t, invalid(name, "%.60q is not a time such as 2026-01-31T12:00:00Z", s)
	}
	return t, nil
}

func (c *call) flag(name string) (bool, error) {
	switch s := c.arg(name); s {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	default:
		return false, invalid(name, "%.40q is neither true nor false", s)
	}
}

func (c *call) list(name string) []string {
	var out []string
	for _, v := range c.args(name) {
		for part := range strings.SplitSeq(v, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
	}
	return out
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

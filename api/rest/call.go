package rest

import (
	"bytes"
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
	"github.com/thole-dev/thole/journal/problem"
	"github.com/thole-dev/thole/state/run"
)

// call is one request on its way through a handler.
type call struct {
	api    *API
	op     *operation
	takes  *input // the handler's input
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context // the request's, with its idempotency key
	id     string          // sess_…
	actor  string
	token  *auth.Token   // nil: everything is allowed
	space  *thole.Space  // of {space}, with the caller as actor, this request as cause, and the fences
	scope  auth.Scope    // the part of space that the caller may see
	fences []thole.Fence // from Thole-Fence
	proven []thole.Fence // the fences whose leases the caller holds, or may have held: see [call.prove]
	hidden *privacy      // see [call.private]
	addsTo string        // the thread that [call.mayAddTo] found last
	query  url.Values    // see [call.checkQuery]
	raw    []byte        // the body
}

// admit authenticates the caller, checks that the request is allowed, and prepares
// the call.
func (c *call) admit() error {
	if err := c.identify(); err != nil {
		return err
	}
	if err := c.api.limiter.allow(c.callerKey()); err != nil {
		return err
	}
	if err := c.checkQuery(); err != nil {
		return err
	}
	if err := c.checkHeaders(); err != nil {
		return err
	}
	name := c.r.PathValue("space")
	if name == "" && c.r.Header.Get("Thole-Fence") != "" {
		return invalid("Thole-Fence", "is of no effect here: a lease is in one space, and the path names none")
	}
	if name != "" {
		if err := c.enter(name); err != nil {
			return err
		}
	}
	if c.readsBody() {
		var err error
		if c.raw, err = readBody(c.w, c.r, c.api.opts.MaxBody); err != nil {
			return err
		}
	}
	if err := c.underKey(); err != nil {
		return err
	}
	return c.enterWithFences()
}

// readsBody reports whether the whole body is read before the handler runs.
func (c *call) readsBody() bool {
	return c.takes.body != nil && c.takes.body.shape != nil
}

// underKey makes the request the operation of its idempotency key, with a fingerprint
// of the request: a key is for one request.
func (c *call) underKey() error {
	if key := c.r.Header.Get("Idempotency-Key"); c.keyed() {
		if len(key) > 256 {
			return invalid("Idempotency-Key", "has more than 256 bytes")
		}
		sum := sha256.New()
		fmt.Fprintf(sum, "%s %s\n", c.r.Method, c.r.URL.RequestURI())
		for _, f := range c.fences { // with their secrets: a repeat must prove the same
			fmt.Fprintf(sum, "fence %s %s\n", f, f.Proof())
		}
		for _, name := range []string{"Content-Type", "If-Match", "If-None-Match"} { // headers that change the meaning
			if v := c.r.Header.Get(name); v != "" && v != "application/json" {
				fmt.Fprintf(sum, "%s: %s\n", name, v)
			}
		}
		sum.Write(c.raw)
		// The request is the operation, however many commits it makes.
		c.ctx = thole.WithIdempotencyKey(c.ctx, c.keyOf(key), hex.EncodeToString(sum.Sum(nil)[:16]))
		c.ctx = thole.Operation(thole.WithKeySecret(c.ctx, c.bearer()))
	}
	return nil
}

// keyed reports whether the request has an idempotency key and its operation honours
// it.
func (c *call) keyed() bool {
	return c.r.Header.Get("Idempotency-Key") != "" && c.op.takesKey()
}

// keyOf returns the idempotency key that the caller's key stands for. A signal that a
// run took under a key and did not act on goes to the run that resumes it. That run's
// worker may use the same key for the same step, so there it stands for another key.
func (c *call) keyOf(key string) string {
	if c.op.waits {
		r, err := run.In(c.space, nil).Peek(c.ctx, c.r.PathValue("run"))
		if err == nil && r.ResumedFrom != "" {
			return key + "\x00" + r.ID // no header can hold a zero byte
		}
	}
	return key
}

// identify sets the call's token and actor.
func (c *call) identify() error {
	if c.api.opts.Auth == nil {
		c.actor = "user:local"
		if a := c.r.Header.Get("Thole-Actor"); a != "" {
			if err := thole.ActorName.Check(a); err != nil {
				return invalid("Thole-Actor", "%v", err)
			}
			c.actor = a
		}
		return nil
	}
	if c.op.access == public {
		return nil
	}
	token, err := c.authenticate(c.ctx)
	if err != nil {
		return err
	}
	if c.r.Header.Get("Thole-Actor") != "" {
		return invalid("Thole-Actor", "is for servers without tokens; here the token says who calls")
	}
	c.token, c.actor = &token, token.Actor
	return nil
}

// bearer returns the caller's secret. Without authentication it is the same for all:
// everyone may do everything, so a fence's secret protects nothing.
func (c *call) bearer() string {
	if c.token == nil {
		return "none"
	}
	_, secret, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(secret)
}

// authenticate returns the current state of the request's token.
func (c *call) authenticate(ctx context.Context) (auth.Token, error) {
	scheme, secret, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return auth.Token{}, fmt.Errorf("%w: send a token in the header Authorization: Bearer TOKEN; `thole token create` makes one", problem.ErrUnauthorized)
	}
	return c.api.opts.Auth.Authenticate(ctx, strings.TrimSpace(secret))
}

// enter checks the caller's grants on a space and sets c.space to a handle on it.
func (c *call) enter(name string) error {
	scope, err := c.allowed(name, auth.Access(c.op.access))
	if err != nil {
		return err
	}
	if scope.Narrowed && !c.op.scoped && !scope.Thread(c.r.PathValue("thread")) {
		return fmt.Errorf("%w: the token is for other threads of %.80s", problem.ErrForbidden, name)
	}
	c.scope = scope
	c.space = c.handle(name)
	if c.fences, err = parseFences(c.r.Header.Values("Thole-Fence")); err != nil {
		return err
	}
	for _, f := range c.fences {
		c.space = c.space.Under(f)
	}
	return nil
}

func (c *call) handle(name string) *thole.Space {
	return c.api.store.Space(name).As(c.actor).Because(cause(c.id, c.r.Header))
}

// allowed returns the part of a space that the caller may see, or
// problem.ErrForbidden.
func (c *call) allowed(space string, need auth.Access) (auth.Scope, error) {
	if c.token == nil {
		return auth.Scope{}, nil
	}
	scope, ok := auth.Allows(c.token.Grants, space, need)
	if !ok {
		return auth.Scope{}, fmt.Errorf("%w: no %s grant on %.80s", problem.ErrForbidden, need, space)
	}
	return scope, nil
}

// isAdmin reports whether the caller has an admin grant on the space, and so also
// sees private threads there.
func (c *call) isAdmin(space string) bool {
	_, err := c.allowed(space, auth.Admin)
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

// answer writes the result of a handler.
func (c *call) answer(v any) error {
	if _, done := v.(sent); done {
		return nil
	}
	status := c.op.success()
	h := c.w.Header()
	h.Set("Cache-Control", "no-cache")
	c.headersOf(v)
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

// marshal returns JSON as the API sends it: without HTML escapes, with a final newline.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

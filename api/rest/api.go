// Package rest serves a store over HTTP: JSON under /v1, events as Server-Sent
// Events, an OpenAPI document made from the same table as the routes, and the
// endpoints for operators (health, readiness, metrics).
package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/metrics"
	"github.com/thole-dev/thole/api/wire"
	"github.com/thole-dev/thole/journal/problem"
)

// Authenticator finds the token of a secret. It is auth.Tokens or another source of
// identities. It returns problem.ErrUnauthorized for an unknown secret.
type Authenticator interface {
	Authenticate(ctx context.Context, secret string) (auth.Token, error)
}

// Options tune an API. The zero value means no authentication, on loopback only.
type Options struct {
	// Auth checks bearer tokens. Nil: everybody may do everything; requests must then
	// name a loopback host and may not come from another origin's web page.
	Auth Authenticator
	// Origins are the web origins ("https://app.example") that may call from a
	// browser. Empty: only the server's own. Those that [CheckOrigin] refuses are
	// ignored.
	Origins []string
	// MaxBody bounds a request's body in bytes. Default 5 MiB, which holds a
	// commit of the largest size.
	MaxBody int64
	// Rate is how many requests per second one caller may make, and the size of a
	// burst. 0: no bound.
	Rate int
	// MaxWatchers bounds the event streams on one space. 0: no bound.
	MaxWatchers int
	// Heartbeat is how often an idle event stream carries a comment. Default
	// [wire.Heartbeat], 15 s.
	Heartbeat time.Duration
	// Stall is how long a client may take to read a part of an answer before its
	// connection is dropped. Default 30 s.
	Stall time.Duration
	// Version is the version in the OpenAPI document and at /healthz.
	Version string
	// Runner is notified of runs that wait for a worker. Nil: workers elsewhere claim
	// them.
	Runner Runner
	// Metrics counts requests and is served at /metrics. Nil: a new set.
	Metrics *metrics.Set
	// Logger logs faults, and each request at debug level. Nil: slog.Default().
	Logger *slog.Logger
}

// API is the handler. It is safe for concurrent use.
type API struct {
	store    *thole.Store
	opts     Options
	log      *slog.Logger
	metrics  *metrics.Set
	mux      *http.ServeMux
	groups   []group
	table    []operation                  // of groups
	declared map[string]bool              // types of events
	shown    map[string][]string          // see [shownIn], by type of event
	encode   func(*thole.Delivery) []byte // see [API.frame]
	limiter  *limiter
	wire     *wire.Server
	holders  holders   // long requests by token
	starters starters  // connections that started a run and stream it
	buffers  sync.Pool // of *[]byte, for frames to write
	drain    context.Context
	stop     context.CancelFunc
	retired  atomic.Bool // /readyz says 503
}

// New returns a handler that serves store, which was opened with [Concepts]. A nil
// opts means the defaults.
func New(store *thole.Store, opts *Options) *API { return serving(store, opts, groups()) }

// serving returns a handler with the operations of these groups.
func serving(store *thole.Store, opts *Options, groups []group) *API {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MaxBody == 0 {
		o.MaxBody = 5 << 20
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = wire.Heartbeat
	}
	if o.Stall == 0 {
		o.Stall = 30 * time.Second
	}
	if o.Metrics == nil {
		o.Metrics = metrics.New()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Origins = slices.DeleteFunc(slices.Clone(o.Origins), func(origin string) bool {
		err := CheckOrigin(origin)
		if err != nil {
			o.Logger.Warn("a web origin is left out", "error", err)
		}
		return err != nil
	})
	a := &API{
		store: store, opts: o, log: o.Logger, metrics: o.Metrics,
		mux: http.NewServeMux(), groups: groups, table: compile(groups), limiter: newLimiter(o.Rate),
	}
	a.declared, a.shown, a.encode = make(map[string]bool), make(map[string][]string), a.frame
	for _, t := range store.Concepts().EventTypes() {
		a.declared[t.Type], a.shown[t.Type] = true, shownIn(t.GoType())
	}
	a.drain, a.stop = context.WithCancel(context.Background())
	a.wire = wire.New(store, &wire.Options{Version: o.Version, Heartbeat: o.Heartbeat, Stall: o.Stall, Draining: a.drain, Logger: o.Logger})
	for i := range a.table {
		op := &a.table[i]
		a.mux.HandleFunc(op.method+" "+op.path, func(w http.ResponseWriter, r *http.Request) { a.serve(op, w, r) })
	}
	for pattern, serve := range a.operators() {
		a.mux.HandleFunc(pattern, serve)
	}
	a.mux.HandleFunc("/", a.notFound)
	return a
}

// Retire makes /readyz answer 503, so that a load balancer sends new requests
// elsewhere. Everything else goes on as before.
func (a *API) Retire() { a.retired.Store(true) }

// Drain does what Retire does and ends every event stream; the clients reconnect to
// another process or the next one. Other requests go on.
func (a *API) Drain() {
	a.Retire()
	a.stop()
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	rec := &recorder{ResponseWriter: w, stall: a.opts.Stall}
	id := requestID(r.Header)
	h := w.Header()
	h.Set("X-Request-Id", id)
	h.Set("X-Content-Type-Options", "nosniff")
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, id))
	rec.body = boundBody(w, r) // replaces the body of our copy of r
	defer func() {
		fault := recover()
		if fault == http.ErrAbortHandler { // a stream that must be cut off: net/http does it
			a.finished(rec, r, id, start)
			panic(fault)
		}
		if fault != nil {
			a.log.Error("a handler panicked", "request", id, "panic", fault, "stack", string(debug.Stack()))
			if rec.status == 0 {
				a.problem(rec, r, id, fmt.Errorf("%w: panic", problem.ErrInternal))
			}
		}
		a.finished(rec, r, id, start)
	}()
	if err := a.enter(rec, r); err != nil {
		a.problem(rec, r, id, err)
	} else if rec.status == 0 {
		a.mux.ServeHTTP(rec, r)
	}
}

type requestKey struct{}

// finished counts and logs a request.
func (a *API) finished(rec *recorder, r *http.Request, id string, start time.Time) {
	stream := strings.HasPrefix(rec.Header().Get("Content-Type"), "text/event-stream")
	took := time.Since(start)
	a.metrics.Request(r.Pattern, rec.status, took, stream)
	a.log.Debug("request", "request", id, "method", r.Method, "route", r.Pattern, "status", rec.status, "took", took)
}

// enter makes the checks that apply to every request, before its route is known. It
// answers CORS preflights itself.
func (a *API) enter(w http.ResponseWriter, r *http.Request) error {
	if p := r.URL.EscapedPath(); p != path.Clean(p) {
		return invalid("path", "has an empty segment, a trailing slash, or . or ..; write / in a name as %%2F and a dot as %%2E")
	}
	if !utf8.ValidString(r.URL.Path) || strings.ContainsFunc(r.URL.Path, unicode.IsControl) {
		return invalid("path", "is not UTF-8 or holds a control character")
	}
	if a.opts.Auth == nil && !loopback(r.Host) {
		return fmt.Errorf("%w: without authentication only a loopback host is served, not %.80q", problem.ErrForbidden, r.Host)
	}
	origin := r.Header.Get("Origin")
	trusted := slices.Contains(a.opts.Origins, origin)
	if origin != "" {
		w.Header().Add("Vary", "Origin")
	}
	if trusted {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "ETag, Location, Retry-After, Thole-Position, X-Request-Id")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
			h.Set("Access-Control-Allow-Headers", "Accept, Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Thole-Actor, Thole-Fence, Traceparent, X-Request-Id")
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
	}
	// A page of another origin can send simple requests without a preflight.
	var guard http.CrossOriginProtection
	if err := guard.Check(r); err != nil && !trusted {
		return fmt.Errorf("%w: a web page of another origin; allow it with --cors-origin", problem.ErrForbidden)
	}
	return nil
}

// loopback reports whether a Host header names this machine. Another name may have
// been made to point here (DNS rebinding).
func loopback(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

// serve runs an operation's handler.
func (a *API) serve(op *operation, w http.ResponseWriter, r *http.Request) {
	id, _ := r.Context().Value(requestKey{}).(string)
	c := &call{api: a, op: op, w: w, r: r, ctx: r.Context(), id: id}
	h := &op.does
	if op.streams.serve != nil && accepts(r, "text/event-stream") {
		h = &op.streams
	}
	c.takes = h.input
	err := c.admit()
	if err == nil {
		var v any
		if v, err = h.serve(c); err == nil {
			err = c.answer(h.told(c.private(), v))
		}
	}
	if err != nil {
		a.maskedProblem(w, r, id, c.conditional(err), c.maskProblem)
	}
}

func accepts(r *http.Request, mediaType string) bool {
	return r.Method != http.MethodHead && strings.Contains(r.Header.Get("Accept"), mediaType)
}

// notFound answers a request that no route matches: 405 if one with another method
// would match, else 404.
func (a *API) notFound(w http.ResponseWriter, r *http.Request) {
	id, _ := r.Context().Value(requestKey{}).(string)
	var allow []string
	for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		other := r.Clone(r.Context())
		other.Method = m
		if _, pattern := a.mux.Handler(other); pattern != "/" {
			allow = append(allow, m)
		}
	}
	if len(allow) == 0 {
		a.problem(w, r, id, fmt.Errorf("%w: there is nothing at %.200s; see /docs", thole.ErrNotFound, r.URL.Path))
		return
	}
	w.Header().Set("Allow", strings.Join(allow, ", "))
	a.problem(w, r, id, &statusError{http.StatusMethodNotAllowed,
		fmt.Errorf("%w: this path takes %s, not %s; /docs says what that does", errors.ErrUnsupported, strings.Join(allow, ", "), r.Method)})
}

// recorder records the status of a response and sets the client a deadline to read
// it. If the request's body was not read to its end, the response does not wait for
// the rest but closes the connection.
type recorder struct {
	http.ResponseWriter
	status int
	stall  time.Duration
	body   *bodyEnd // nil: none
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		rc := http.NewResponseController(w.ResponseWriter)
		rc.SetWriteDeadline(time.Now().Add(w.stall)) // best effort: not every writer has deadlines
		if w.body != nil && !w.body.reached {
			// Without it net/http reads on before it sends the response.
			w.Header().Set("Connection", "close")
			rc.SetReadDeadline(time.Now().Add(drainTimeout))
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

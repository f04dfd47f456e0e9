// Package wire is the server's half of backend/remote: it serves a store to the
// Stores of other programs, as their backend. Their commits go through this store's
// group commit, caches and fan-out, so watchers here see them at once.
package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/journal/problem"
)

// Heartbeat is the default of [Options.Heartbeat]. Clients take a stream that is silent
// for three of them for dead.
const Heartbeat = remote.Heartbeat

// Options tune a Server. The zero value is the default.
type Options struct {
	// Version is the program's version, for people.
	Version string
	// Heartbeat is how often an idle event stream carries a comment. Default [Heartbeat].
	Heartbeat time.Duration
	// Stall is how long a client may take to read a part of an answer before its
	// connection is dropped. Default 30 s.
	Stall time.Duration
	// Draining is done when the server shuts down: event streams then end, and new
	// changes are refused. Nil: never.
	Draining context.Context
	// Logger logs commits that failed on this server. Default slog.Default().
	Logger *slog.Logger
	// Now is the clock that decides when outcomes are forgotten. Default time.Now.
	Now func() time.Time
}

// Server answers the calls of remote backends. It is safe for concurrent use.
type Server struct {
	store    *thole.Store
	opts     Options
	instance string
	ledger   *ledger
	mux      *http.ServeMux
}

// New returns a Server of store. A nil opts means the defaults.
func New(store *thole.Store, opts *Options) *Server {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = Heartbeat
	}
	if o.Stall <= 0 {
		o.Stall = 30 * time.Second
	}
	if o.Draining == nil {
		o.Draining = context.Background()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{store: store, opts: o, instance: journal.NewID("inst"), ledger: newLedger(o.Now), mux: http.NewServeMux()}
	for _, op := range Operations() {
		s.mux.HandleFunc(op.Method+" "+op.Path, func(w http.ResponseWriter, r *http.Request) {
			if err := op.Serve(s, &Call{W: w, R: r}); err != nil {
				writeProblem(w, err)
			}
		})
	}
	return s
}

// ServeHTTP implements http.Handler for a server without tokens. Package rest does
// not use it: it serves the operations one by one.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Call is one request.
type Call struct {
	W http.ResponseWriter
	R *http.Request
	// Caller identifies the caller. One caller cannot ask for the outcome of another's
	// changes. "": all callers are one.
	Caller string
	// May returns an error if the caller may not use a space as a store does; "*"
	// stands for all spaces. Nil: everything is allowed.
	May func(space string) error
	// Again returns an error if the caller has lost the right to a stream. It is
	// called with every heartbeat. Nil: the right never ends.
	Again func() error
}

func (c *Call) may(spaces ...string) error {
	if c.May == nil {
		return nil
	}
	for _, space := range spaces {
		if err := c.May(space); err != nil {
			return err
		}
	}
	return nil
}

// hello answers with the protocol, the server's instance and its store's durability.
func (s *Server) hello(c *Call) error {
	c.W.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(c.W).Encode(remote.Hello{
		Protocol: remote.Protocol, Instance: s.instance, Durability: s.store.Durability(), Version: s.opts.Version, UpTo: true,
	})
}

// ElsewhereError reports a change that was addressed to another process of the
// server. Its status is 421.
type ElsewhereError struct{ Instance string }

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("this is another server process than %.80q, to which the change was sent", e.Instance)
}

// Unwrap returns ErrConflict.
func (e *ElsewhereError) Unwrap() error { return journal.ErrConflict }

// writeProblem answers with err, for a Server that is used without package rest.
func writeProblem(w http.ResponseWriter, err error) {
	p := problem.Of(err)
	if isElsewhere(err) {
		p.Status = http.StatusMisdirectedRequest
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}

package rest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal/problem"
)

// operators are what operators and load balancers ask a process for, by the
// pattern of their path.
func (a *API) operators() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /healthz":      a.healthz,
		"GET /readyz":       a.readyz,
		"GET /metrics":      a.serveMetrics,
		"GET /openapi.json": a.serveOpenAPI(),
		"GET /{$}":          http.RedirectHandler("/docs", http.StatusFound).ServeHTTP,
		"GET /docs":         a.serveDocs,
		"GET /docs/{file}":  a.serveDocs,
	}
}

// healthz says that the process lives.
func (a *API) healthz(w http.ResponseWriter, r *http.Request) {
	a.status(w, http.StatusOK, "ok", nil)
}

// readyz says whether to send requests here: the store answers, and the process
// is not about to end. Of several stores that of the space global has to, which
// holds the tokens; others that do not are named.
func (a *API) readyz(w http.ResponseWriter, r *http.Request) {
	if a.retired.Load() {
		a.status(w, http.StatusServiceUnavailable, "draining", nil)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	_, err := a.store.Spaces(ctx, thole.SpacesQuery{Limit: 1})
	var away *thole.UnreachableError
	if errors.As(err, &away) {
		_, err = a.store.Space("global").Head(ctx)
	}
	if err != nil {
		a.log.Error("the store does not answer", "error", err)
		a.status(w, http.StatusServiceUnavailable, "the store does not answer", away)
		return
	}
	a.status(w, http.StatusOK, "ready", away)
}

// status answers with a word and, if some of several stores are away, the
// patterns of their spaces.
func (a *API) status(w http.ResponseWriter, status int, text string, away *thole.UnreachableError) {
	say := struct {
		Status      string   `json:"status"`
		Version     string   `json:"version"`
		Unreachable []string `json:"unreachable,omitempty"`
	}{Status: text, Version: a.opts.Version}
	if away != nil {
		say.Unreachable = away.Patterns()
	}
	body, _ := marshal(say) // strings: cannot fail
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(body)
}

// serveMetrics needs a token wherever there are tokens.
func (a *API) serveMetrics(w http.ResponseWriter, r *http.Request) {
	if a.opts.Auth != nil {
		_, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if _, err := a.opts.Auth.Authenticate(r.Context(), strings.TrimSpace(secret)); err != nil {
			if problem.Code(err) == "internal" {
				err = problem.ErrUnauthorized
			}
			a.problem(w, r, w.Header().Get("X-Request-Id"), err)
			return
		}
	}
	a.metrics.Handler().ServeHTTP(w, r)
}

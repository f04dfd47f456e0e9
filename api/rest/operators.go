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

// operators returns the handlers for operators and load balancers, by the pattern of
// their path.
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

// healthz reports that the process is alive.
func (a *API) healthz(w http.ResponseWriter, r *http.Request) {
	a.status(w, http.StatusOK, "ok", nil)
}

// readyz reports whether this process takes requests: its store answers, and it is not
// draining. Of several stores the one with the space global has to answer, since it
// holds the tokens; the response names others that do not.
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

// status answers with a word and, if some of several stores do not answer, the
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

// serveMetrics serves the metrics. It needs a token if the API checks tokens.
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

package rest

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
)

// operations registers what operators and load balancers ask a process for.
func (a *API) operations() {
	a.mux.HandleFunc("GET /healthz", a.healthz)
	a.mux.HandleFunc("GET /readyz", a.readyz)
	a.mux.HandleFunc("GET /metrics", a.serveMetrics)
	a.mux.HandleFunc("GET /openapi.json", a.serveOpenAPI())
	a.mux.HandleFunc("GET /docs", a.serveDocs)
	a.mux.HandleFunc("GET /docs/{file}", a.serveDocs)
}

// healthz says that the process lives.
func (a *API) healthz(w http.ResponseWriter, r *http.Request) {
	a.status(w, http.StatusOK, "ok")
}

// readyz says whether to send requests here: the store answers, and the process
// is not about to end.
func (a *API) readyz(w http.ResponseWriter, r *http.Request) {
	if a.retired.Load() {
		a.status(w, http.StatusServiceUnavailable, "draining")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	if _, err := a.store.Spaces(ctx, thole.SpacesQuery{Limit: 1}); err != nil {
		a.log.Error("the store does not answer", "error", err)
		a.status(w, http.StatusServiceUnavailable, "the store does not answer")
		return
	}
	a.status(w, http.StatusOK, "ready")
}

func (a *API) status(w http.ResponseWriter, status int, text string) {
	body, _ := marshal(map[string]string{"status": text, "version": a.opts.Version}) // strings: cannot fail
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
			if kindOf(err).code == "internal" {
				err = auth.ErrUnauthorized
			}
			a.problem(w, r, w.Header().Get("X-Request-Id"), err)
			return
		}
	}
	a.metrics.Handler().ServeHTTP(w, r)
}

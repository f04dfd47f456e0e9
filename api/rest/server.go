package rest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Server serves an API on a listener and shuts it down gracefully.
type Server struct {
	api  *API
	http *http.Server
}

// NewServer returns a server of api.
func NewServer(api *API) *Server {
	return &Server{api: api, http: &http.Server{
		Handler:           api,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(api.log.Handler(), slog.LevelDebug),
	}}
}

// Serve answers requests on l, which it closes, until Shutdown; then it returns
// nil at once, while requests may still be under way.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// ServeTLS is Serve over TLS; c must hold a certificate.
func (s *Server) ServeTLS(l net.Listener, c *tls.Config) error {
	s.http.TLSConfig = c
	if err := s.http.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// Shutdown ends the server: /readyz answers 503, no more connections are accepted, and
// event streams end with a comment, so that their clients reconnect elsewhere. It waits
// for the requests in progress. When ctx ends first, it closes the remaining
// connections and returns ctx's error. It cancels no runs: the caller does that
// afterwards.
func (s *Server) Shutdown(ctx context.Context) error {
	s.api.Drain()
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("drain requests: %w", err), s.http.Close())
	}
	return nil
}

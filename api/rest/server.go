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

// Server runs an API on a listener and ends it without cutting anyone off.
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

// ServeTLS is Serve over TLS; c holds a certificate.
func (s *Server) ServeTLS(l net.Listener, c *tls.Config) error {
	s.http.TLSConfig = c
	if err := s.http.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// Shutdown ends the server: /readyz says 503, no more connections are accepted,
// event streams end with a comment so that their clients come back elsewhere,
// and requests under way are waited for. When ctx ends first, what is left is
// cut off and ctx's error is returned. Runs are the caller's to cancel
// afterwards.
func (s *Server) Shutdown(ctx context.Context) error {
	s.api.Drain()
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("drain requests: %w", err), s.http.Close())
	}
	return nil
}

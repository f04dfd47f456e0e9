package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/metrics"
	"github.com/thole-dev/thole/api/rest"
)

const (
	defaultListen = "127.0.0.1:8465"
	defaultURL    = "http://" + defaultListen
)

// server is what dev and serve have in common.
type server struct {
	app         *app
	listen      string
	cert        string
	key         string
	origins     []string
	maxBody     int64
	maxWatchers int
	rate        int
	grace       time.Duration
	drainDelay  time.Duration
	verbose     bool
}

func (s *server) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.listen, "listen", defaultListen, "address to listen on; port 0 picks a free one")
	f.StringArrayVar(&s.origins, "cors-origin", nil, "web origin that may call from a browser, such as https://app.example; may be given more than once")
	f.Int64Var(&s.maxBody, "max-body", 5<<20, "bytes that a request's body may have")
	f.IntVar(&s.maxWatchers, "max-watchers", 10_000, "event streams that may be open on one space; 0: no bound")
	f.IntVar(&s.rate, "rate", 0, "requests a second that one caller may make; 0: no bound")
	f.DurationVar(&s.grace, "grace", 10*time.Second, "how long to wait for requests and runs at the end")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "log every request")
}

func serveCommand(a *app) *cobra.Command {
	s := &server{app: a}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve a store over HTTP, for programs with tokens",
		Long: `Serve the store over HTTP. Every request needs a bearer token: make the first one
with ` + "`thole token create`" + `. Any number of processes may serve one PostgreSQL database, or
one store on a disk of this machine. SIGTERM drains: readiness goes off; after
--drain-delay, in which a load balancer notices, streams end and requests finish. A
second SIGTERM does not wait. It runs no agent: a run waits until a worker claims it, over
the API or from a program on the same store. See docs/operations.md.`,
		Example: `  thole token create admin --grant '*=admin' --store sqlite:thole.db
  thole serve --store sqlite:thole.db --listen 127.0.0.1:8465`,
		Args: cobra.NoArgs,
	}
	s.flags(c)
	c.Flags().DurationVar(&s.drainDelay, "drain-delay", 0, "how long to serve on after readiness went off; more than a load balancer takes to notice")
	c.Flags().StringVar(&s.cert, "tls-cert", "", "certificate file (PEM); serves HTTPS")
	c.Flags().StringVar(&s.key, "tls-key", "", "key file (PEM)")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		return s.run(cmd.Context(), cmd.OutOrStdout(), setup{
			authenticate: func(st *thole.Store) rest.Authenticator { return auth.NewTokens(st) },
			start: func(ctx context.Context, st *thole.Store, _ string) error {
				return needsToken(ctx, cmd.OutOrStdout(), st)
			},
		})
	}
	return c
}

// needsToken says what to do first if there is no token.
func needsToken(ctx context.Context, out io.Writer, st *thole.Store) error {
	tokens, err := auth.List(ctx, st, "", 1)
	if err != nil || len(tokens) > 0 {
		return err
	}
	return sayf(out, "no token yet, so every request is refused: make one with `thole token create` on the same store\n")
}

// setup is in what dev and serve differ.
type setup struct {
	authenticate func(*thole.Store) rest.Authenticator                        // nil: nobody needs a token
	runner       rest.Runner                                                  // nil: runs wait for workers elsewhere
	start        func(ctx context.Context, st *thole.Store, url string) error // before "listening" is printed; may be nil
	stop         func(ctx context.Context)                                    // ends what start began, in good order until ctx ends; may be nil
}

// run serves until ctx ends, then drains: readiness goes off; after the drain
// delay streams end, requests and runs finish, at most for the time of grace, and
// the store is closed. A second signal ends both waits. It ends with an error, too, when
// the store stops because its disk failed.
func (s *server) run(ctx context.Context, out io.Writer, with setup) (err error) {
	level := slog.LevelInfo
	if s.verbose {
		level = slog.LevelDebug
	}
	if s.maxBody < 1 || s.maxWatchers < 0 || s.rate < 0 || s.drainDelay < 0 {
		return errors.New("--max-body takes 1 or more; --max-watchers, --rate and --drain-delay take 0 or more")
	}
	for _, origin := range s.origins {
		if err := rest.CheckOrigin(origin); err != nil {
			return fmt.Errorf("--cors-origin: %w", err)
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	secure, err := s.certificate()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", s.listen) // before anything is made
	if err != nil {
		return err
	}
	defer l.Close()
	counts := metrics.New()
	st, err := s.app.openWith(ctx, true, &thole.Options{Logger: log}, counts.Backend)
	if err != nil {
		return err
	}
	defer func() {
		if e := st.Close(); e != nil && !errors.Is(err, e) { // a store that stopped says why once
			err = errors.Join(err, e)
		}
	}()
	counts.Clock(st.ClockLead)
	opts := &rest.Options{
		Origins: s.origins, MaxBody: s.maxBody, MaxWatchers: s.maxWatchers, Rate: s.rate, Version: versionString(),
		Logger: log, Metrics: counts, Runner: with.runner,
	}
	if with.authenticate != nil {
		opts.Auth = with.authenticate(st)
	}
	api := rest.New(st, opts)
	srv := rest.NewServer(api)
	scheme, serve := "http", func() error { return srv.Serve(l) }
	if secure != nil {
		scheme, serve = "https", func() error { return srv.ServeTLS(l, secure) }
	}
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	url := scheme + "://" + l.Addr().String()
	if with.start != nil {
		err = with.start(ctx, st, url)
	}
	if err == nil {
		fmt.Fprintf(out, "listening on %s\n", url)
		watching, cancel := context.WithCancel(ctx)
		defer cancel()
		select {
		case err = <-ended:
		case err = <-stopped(watching, st):
		case <-ctx.Done():
			log.Info("draining", "delay", s.drainDelay, "grace", s.grace)
		}
	}
	if err != nil {
		s.drainDelay = 0
	}
	return errors.Join(err, s.drain(context.WithoutCancel(ctx), api, srv, with.stop))
}

// stopped sends why the store stopped; nothing when ctx ends before.
func stopped(ctx context.Context, st *thole.Store) <-chan error {
	why := make(chan error, 1)
	go func() {
		if err := st.Stopped(ctx); err != nil {
			why <- err
		}
	}()
	return why
}

// drain ends a server in good order: readiness; after the delay streams; then runs
// and requests. A second signal ends the waits.
func (s *server) drain(ctx context.Context, api *rest.API, srv *rest.Server, stopRuns func(context.Context)) error {
	again, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	api.Retire()
	select {
	case <-time.After(s.drainDelay):
	case <-again.Done():
	}
	api.Drain()
	grace, cancel := context.WithTimeout(again, s.grace)
	defer cancel()
	if stopRuns != nil {
		stopRuns(grace)
	}
	if grace.Err() != nil { // the runs took all of it, but requests end in moments
		grace, cancel = context.WithTimeout(ctx, lastRequests)
		defer cancel()
	}
	return srv.Shutdown(grace)
}

// lastRequests is how long requests may take to end after the time of grace.
const lastRequests = time.Second

// certificate reads what the flags name before anything is started; nil: HTTP.
func (s *server) certificate() (*tls.Config, error) {
	switch {
	case s.cert == "" && s.key == "":
		return nil, nil
	case s.cert == "" || s.key == "":
		return nil, errors.New("HTTPS takes both --tls-cert and --tls-key")
	}
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}, nil
}

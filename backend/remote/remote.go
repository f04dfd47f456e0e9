// Package remote is a backend that uses another Thole server, so that the whole
// library works against a server. Durability and order are the server's.
package remote

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/thole-dev/thole/journal"
)

// Options configure a Backend. The zero value is the default.
type Options struct {
	// Token is sent with every request. It needs an admin grant on each space
	// that is used, and on "*" to list, sweep and watch spaces. Default: the
	// user information of the URL, else the variable THOLE_TOKEN.
	Token string
	// Timeout limits one try of a request. Default 10 s.
	Timeout time.Duration
	// Retry limits how long a request is retried. Default 30 s, at most 60 s,
	// since the server remembers the outcome of a batch only for that long.
	Retry time.Duration
	// Transport sends the requests. Default: a new transport that uses the
	// HTTP_PROXY variables.
	Transport http.RoundTripper
}

const maxRetry = time.Minute

// Backend is a [journal.Backend] on a server. It runs any number of requests at once.
type Backend struct {
	base   string // URL without a path
	token  string
	opts   Options
	http   *http.Client
	close  func() // closes idle connections
	client string // random name of this Backend for the server

	durability journal.Durability
	version    string // of the server

	over   context.Context // ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup // running calls; incremented while mu is held and closed is not set

	mu       sync.Mutex
	closed   bool
	instance string              // of the server process that changes go to
	next     uint64              // number of the next batch
	waiting  map[uint64]struct{} // numbers of unfinished changes
}

// Open contacts the server at rawURL ("http://HOST:PORT" or "https://…") and returns
// a Backend on it. A nil opts means the defaults. Errors: ErrInvalid for a malformed
// URL, [problem.ErrUnauthorized] for a rejected token, journal.ErrUnavailable for a
// server that does not answer, errors.ErrUnsupported for a server that is not Thole or
// has another version of the protocol.
func Open(ctx context.Context, rawURL string, opts *Options) (*Backend, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	base, token, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	for _, t := range []string{token, os.Getenv("THOLE_TOKEN")} {
		if o.Token == "" {
			o.Token = t
		}
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Retry <= 0 {
		o.Retry = 30 * time.Second
	}
	o.Retry = min(o.Retry, maxRetry)
	b := &Backend{base: base, token: o.Token, opts: o, close: func() {}, next: 1, waiting: make(map[uint64]struct{})}
	if o.Transport == nil {
		t := transport()
		o.Transport, b.close = t, t.CloseIdleConnections
	}
	b.http = &http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var name [8]byte
	rand.Read(name[:])
	b.client = hex.EncodeToString(name[:])
	b.over, b.cancel = context.WithCancel(context.Background())
	if err := b.hello(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", base, err), b.Close())
	}
	return b, nil
}

// parseURL splits a URL into the server's base URL and the token in it.
func parseURL(rawURL string) (base, token string, err error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		shown := "it"
		if err == nil {
			shown = u.Redacted()
		}
		return "", "", fmt.Errorf("%w: a server is http://HOST:PORT or https://HOST, %s is not", journal.ErrInvalid, shown)
	}
	if u.User != nil {
		token = u.User.Username()
		if p, ok := u.User.Password(); ok {
			token = p
		}
	}
	return u.Scheme + "://" + u.Host, token, nil
}

// transport returns a transport that keeps enough idle connections for a busy Store.
func transport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     time.Minute, // before the server closes them
		DisableCompression:  true,
	}
}

// hello reads the server's Hello, in one try.
func (b *Backend) hello(ctx context.Context) error {
	r, err := b.try(ctx, http.MethodGet, "", nil, nil)
	if err != nil {
		return err
	}
	h, err := readHello(r)
	if err != nil {
		return err
	}
	b.durability, b.version = h.Durability, h.Version
	b.instance = h.Instance
	return nil
}

// Capabilities implements [journal.Backend]. The durability is the one that the server
// reported when this Backend was opened.
func (b *Backend) Capabilities() journal.Capabilities {
	return journal.Capabilities{
		Durability: b.durability, Hints: b.hints,
		SendBroadcasts: b.sendBroadcasts, ReceiveBroadcasts: b.receiveBroadcasts,
		Shards: 0, Shard: nil, // the server batches by its own shards
		Check: nil, Stopped: nil, Report: nil, // left to the server's operator
	}
}

// Close implements [journal.Backend]. Running calls end with ErrClosed.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.tasks.Wait()
	b.close()
	return nil
}

// enter begins a call. The returned context also ends when the Backend is closed. The
// caller must call leave at the end of the call. After Close, enter returns ErrClosed.
func (b *Backend) enter(ctx context.Context) (_ context.Context, leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil, journal.ErrClosed
	}
	b.tasks.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(b.over, func() { cancel(journal.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		b.tasks.Done()
	}, nil
}

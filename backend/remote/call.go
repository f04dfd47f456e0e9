package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/thole-dev/thole/journal"
)

// reply is an HTTP response.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// request returns an HTTP request to a path below Root.
func (b *Backend) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, b.base+Root+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.GetBody = nil // net/http must not retry: we count tries ourselves
	if body != nil {
		r.Header.Set("Content-Type", MediaType)
	}
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return r, nil
}

// try sends a request once and returns a successful reply. Its error is a *refusal, a
// *lost, ctx's, or errors.ErrUnsupported if no Thole server answered.
func (b *Backend) try(ctx context.Context, method, path string, body []byte, header map[string]string) (*reply, error) {
	limited, cancel := context.WithTimeout(ctx, b.opts.Timeout)
	defer cancel()
	r, err := b.request(limited, method, path, body)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	res, err := b.http.Do(r)
	if err == nil {
		defer res.Body.Close()
		var data []byte
		if data, err = io.ReadAll(res.Body); err == nil {
			return judge(&reply{status: res.StatusCode, header: res.Header, body: data})
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	b.close() // idle connections may be dead too
	var op *net.OpError
	dialled := !errors.As(err, &op) || op.Op != "dial"
	return nil, &lost{err: fmt.Errorf("the server cannot be reached or broke off: %w", err), sent: dialled}
}

// judge returns r if it is a success. It returns a *refusal for an error response of
// Thole, a *lost for one of a proxy, and errors.ErrUnsupported for anything else.
func judge(r *reply) (*reply, error) {
	if r.status == http.StatusOK || r.status == http.StatusNoContent {
		return r, nil
	}
	if e := readRefusal(r.status, r.header, r.body); e != nil {
		return nil, e
	}
	switch r.status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return nil, &lost{err: fmt.Errorf("a proxy before the server says %d", r.status), sent: true}
	}
	return nil, notThole(r)
}

func notThole(r *reply) error {
	return fmt.Errorf("%w: what answers there is not a Thole server, or is too old to be used as a store: status %d, %s",
		errors.ErrUnsupported, r.status, r.header.Get("Content-Type"))
}

func readHello(r *reply) (*Hello, error) {
	var h Hello
	if json.Unmarshal(r.body, &h) != nil || h.Protocol == 0 || h.Instance == "" {
		return nil, notThole(r)
	}
	if h.Protocol != Protocol {
		return nil, fmt.Errorf("%w: the server speaks version %d of the protocol, this program %d: upgrade the older one",
			errors.ErrUnsupported, h.Protocol, Protocol)
	}
	return &h, nil
}

// ask sends a request that is safe to repeat, and retries it for up to Options.Retry.
func (b *Backend) ask(ctx context.Context, path string, req *Request) (*Answer, error) {
	body, err := req.Encode()
	if err != nil {
		return nil, err
	}
	r, err := b.repeat(ctx, http.MethodPost, path, body)
	if err != nil {
		return nil, err
	}
	return readAnswer(r)
}

// repeat retries a request until it is answered or Options.Retry has passed.
func (b *Backend) repeat(ctx context.Context, method, path string, body []byte) (*reply, error) {
	ctx, leave, err := b.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	for p := b.patience(); ; {
		r, err := b.try(ctx, method, path, body, nil)
		if err == nil {
			return r, nil
		}
		if !passing(err) || !p.wait(ctx, err) {
			return nil, p.gaveUp(ctx, err)
		}
	}
}

func readAnswer(r *reply) (*Answer, error) {
	if r.status == http.StatusNoContent {
		return &Answer{}, nil
	}
	if r.header.Get("Content-Type") != MediaType {
		return nil, notThole(r)
	}
	return DecodeAnswer(r.body)
}

// passing reports whether err may be temporary.
func passing(err error) bool {
	var no *refusal
	if errors.As(err, &no) {
		return no.Status == http.StatusServiceUnavailable || no.Status == http.StatusTooManyRequests
	}
	return errors.As(err, new(*lost))
}

// patience determines how long and how often a request is retried.
type patience struct {
	until time.Time     // zero: no limit
	pause time.Duration // before the next try
}

const maxPause = time.Second

func (b *Backend) patience() *patience {
	p := forever()
	p.until = time.Now().Add(b.opts.Retry)
	return p
}

func forever() *patience { return &patience{pause: 10 * time.Millisecond} }

// wait waits before the next try and reports whether there is one.
func (p *patience) wait(ctx context.Context, err error) bool {
	d := p.pause/2 + rand.N(p.pause/2+1)
	p.pause = min(2*p.pause, maxPause)
	var no *refusal
	if errors.As(err, &no) && no.after > 0 && no.Status == http.StatusTooManyRequests {
		d = max(d, time.Duration(no.after)*time.Second)
	}
	if !p.until.IsZero() && time.Now().Add(d).After(p.until) {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// gaveUp returns the error of a call whose last try ended with err.
func (p *patience) gaveUp(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var no *refusal
	if errors.As(err, &no) && no.sentinel == journal.ErrClosed { // the server was closed, not this Backend
		return fmt.Errorf("%w: the server is going away: %s", journal.ErrUnavailable, no.Detail)
	}
	return err
}

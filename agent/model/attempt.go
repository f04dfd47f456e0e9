package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// maxResponse bounds the bytes of one response.
const maxResponse = 64 << 20

// generate makes attempts until one succeeds, has yielded, or must not be
// repeated. The vendors' SDKs do not retry: this is the only loop.
func generate(ctx context.Context, name string, o Options, yield func(Delta) error, try func(context.Context, *attempt) error) (Response, error) {
	for n := 0; ; n++ {
		a := &attempt{base: o.Transport, stall: o.Stall, build: build{yield: yield}}
		resp, err := a.run(ctx, try)
		if err == nil {
			return resp, nil
		}
		if a.build.yielded || n >= o.Retries || !Retryable(err) || ctx.Err() != nil {
			return resp, fmt.Errorf("%s: %w", name, err)
		}
		select {
		case <-time.After(o.wait(n, err)):
		case <-ctx.Done():
			return resp, fmt.Errorf("%s: %w", name, context.Cause(ctx))
		}
	}
}

// wait returns how long to wait after attempt n, from 0, failed with err.
func (o Options) wait(n int, err error) time.Duration {
	d := o.Backoff << min(n, 10)
	d += time.Duration((rand.Float64() - 0.5) / 2 * float64(d)) // so that clients do not return together
	var status *StatusError
	if errors.As(err, &status) && status.RetryAfter > 0 {
		d = status.RetryAfter
	}
	return min(d, o.MaxWait)
}

// attempt is one exchange with a service. It stands between the SDK and the
// network, where it sees every byte: it notices a stall, and knows a broken
// connection from a broken text.
type attempt struct {
	build
	base    http.RoundTripper
	stall   time.Duration
	timer   *time.Timer
	read    int64
	readErr error // of the connection, other than its end
}

// run makes the attempt. try returns nil only if it saw the end that the
// protocol requires.
func (a *attempt) run(ctx context.Context, try func(context.Context, *attempt) error) (Response, error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.timer = time.AfterFunc(a.stall, func() {
		cancel(fmt.Errorf("%w: no byte for %v", ErrStalled, a.stall))
	})
	defer a.timer.Stop()

	err := try(inner, a)
	if err == nil {
		return a.finish()
	}
	return a.partial(), a.explain(ctx, inner, err)
}

// explain says what an error of the SDK means.
func (a *attempt) explain(ctx, inner context.Context, err error) error {
	var status *StatusError
	switch {
	case a.yieldErr != nil:
		return a.yieldErr
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case inner.Err() != nil: // only the timer ends it alone
		return context.Cause(inner)
	case errors.As(err, &status):
		return status
	case errors.Is(err, ErrIncomplete), errors.Is(err, ErrMalformed):
		return err
	case a.readErr != nil:
		return fmt.Errorf("%w: %w", ErrIncomplete, a.readErr)
	case a.read == 0:
		return err // no connection, or the request could not be made
	}
	return fmt.Errorf("%w: %w", ErrMalformed, err)
}

// client returns an HTTP client for this attempt.
func (a *attempt) client() *http.Client { return &http.Client{Transport: a} }

// RoundTrip implements http.RoundTripper.
func (a *attempt) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := a.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	a.timer.Reset(a.stall)
	resp.Body = &body{a: a, ReadCloser: resp.Body}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return nil, statusError(resp.StatusCode, text, retryAfter(resp.Header, time.Now()))
}

// body watches what comes.
type body struct {
	a *attempt
	io.ReadCloser
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.a.timer.Reset(b.a.stall)
	}
	b.a.read += int64(n)
	if err == nil && b.a.read > maxResponse {
		err = fmt.Errorf("%w: over %d bytes", ErrMalformed, maxResponse)
	}
	if err != nil && err != io.EOF {
		b.a.readErr = err
	}
	return n, err
}

// statusError reads the body of a refusal, in which both vendors put
// {"error": {"type", "message"}}; others send other things.
func statusError(status int, text []byte, wait time.Duration) *StatusError {
	var in struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	e := &StatusError{Status: status, RetryAfter: wait}
	if json.Unmarshal(text, &in) == nil {
		e.Type, e.Message = in.Error.Type, in.Error.Message
	}
	if e.Message == "" {
		e.Message = string(text[:min(len(text), 300)])
	}
	return e
}

// streamError is a refusal after the response had begun with status 200.
func streamError(text []byte) *StatusError {
	e := statusError(0, text, 0)
	switch e.Type {
	case "overloaded_error":
		e.Status = 529
	case "rate_limit_error", "rate_limit_exceeded":
		e.Status = http.StatusTooManyRequests
	case "invalid_request_error", "authentication_error", "permission_error", "not_found_error", "request_too_large", "billing_error":
		e.Status = http.StatusBadRequest
	default:
		e.Status = http.StatusInternalServerError
	}
	return e
}

package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal/problem"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/lock"
)

// statusError overrides the status that the table of errors gives an error.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// fieldError reports an invalid part of a request.
type fieldError struct{ field, reason string }

func (e *fieldError) Error() string { return fmt.Sprintf("%s: %s", e.field, e.reason) }
func (e *fieldError) Unwrap() error { return thole.ErrInvalid }

func invalid(field, format string, args ...any) error {
	return &fieldError{field: field, reason: fmt.Sprintf(format, args...)}
}

// problemOf returns the problem that describes err to the client. mask removes what the
// client may not know.
func problemOf(err error, mask func(string) string) problem.Problem {
	p := problem.Of(err)
	var (
		reused   *thole.ReusedKeyError
		field    *fieldError
		stale    *file.StaleError
		held     *lock.HeldError
		deadlock *lock.DeadlockError
		status   *statusError
	)
	if errors.As(err, &field) {
		p.Field = field.field
	}
	if errors.As(err, &stale) {
		p.Current, p.Hash = stale.Now.Version, stale.Now.Hash
	}
	if errors.As(err, &held) {
		p.Holder = held.Owner
	}
	if errors.As(err, &deadlock) {
		for _, w := range deadlock.Cycle {
			p.Cycle = append(p.Cycle, problem.Wait{Owner: mask(w.Owner), Lock: mask(w.Lock)})
		}
	}
	if errors.As(err, &reused) {
		p.Status = http.StatusUnprocessableEntity
	}
	if errors.As(err, &status) {
		p.Status = status.status
	}
	switch p.Code {
	case "internal":
		p.Detail = "something went wrong here; the server's log has it under the request id"
	case "unavailable":
		p.Detail = "the store cannot be reached now; a change may have happened: send it again under the same Idempotency-Key"
	case "full":
		p.Detail = "no space is left where the store is; nothing was lost, try again when there is some" // the log says where
	}
	p.Detail = brief(mask(p.Detail)) // mask first: a cut could leave half an id
	p.Holder = mask(p.Holder)
	p.Title = http.StatusText(p.Status)
	return p
}

// conditional returns err with status 412 if the request's own If-Match or
// If-None-Match failed.
func (c *call) conditional(err error) error {
	h := c.r.Header
	if c.takes.param("header", "If-Match") != nil && errors.As(err, new(*thole.ConflictError)) && (h.Get("If-Match") != "" || h.Get("If-None-Match") != "") {
		return &statusError{http.StatusPreconditionFailed, err}
	}
	return err
}

// brief cuts the middle out of a long text. Errors begin with what was done and end
// with why it failed; what is between often repeats the request.
func brief(s string) string {
	const begin, end = 150, 300
	if len(s) <= begin+end {
		return s
	}
	return strings.ToValidUTF8(s[:begin], "") + " … " + strings.ToValidUTF8(s[len(s)-end:], "")
}

// problem answers a request with err, and logs err if it is the server's fault.
func (a *API) problem(w http.ResponseWriter, r *http.Request, id string, err error) {
	a.maskedProblem(w, r, id, err, asItIs)
}

func asItIs(text string) string { return text }

// maskedProblem is problem for an error that may name something the client may not
// know: mask removes it.
func (a *API) maskedProblem(w http.ResponseWriter, r *http.Request, id string, err error, mask func(string) string) {
	if r.Context().Err() != nil && errors.Is(err, context.Cause(r.Context())) {
		panic(http.ErrAbortHandler) // a client that closed only its half of the connection must not read a 200
	}
	h := w.Header()
	p := problemOf(err, mask)
	p.RequestID = id
	if p.Status == http.StatusInternalServerError || p.Code == "unavailable" {
		a.log.Error("request failed", "request", id, "method", r.Method, "route", r.Pattern, "error", err)
	}
	if !p.Current.IsZero() && p.Status == http.StatusPreconditionFailed {
		h.Set("ETag", etag(p.Current.String()))
	}
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="thole"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	}
	body, _ := marshal(p) // strings and ints: cannot fail
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	w.Write(body)
}

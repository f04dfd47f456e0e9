package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/lock"
)

// Errors that exist only at the border.
var (
	ErrForbidden   = errors.New("forbidden")    // a valid token without the grant
	ErrRateLimited = errors.New("rate limited") // try again later
	errInternal    = errors.New("internal")     // anything that is none of the others
)

// kind is one row of the error table.
type kind struct {
	err    error
	status int
	code   string
}

// kinds maps each error to one status and one stable code, and a code back to
// the first error that has it. Two statuses depend on the request, not the
// error: see [call.conditional] and [thole.ReusedKeyError].
func kinds() []kind {
	return []kind{
		{thole.ErrNotFound, http.StatusNotFound, "not_found"},
		{thole.ErrExists, http.StatusConflict, "exists"},
		{thole.ErrConflict, http.StatusConflict, "conflict"},
		{thole.ErrInvalid, http.StatusBadRequest, "invalid"},
		{thole.ErrTooLarge, http.StatusRequestEntityTooLarge, "too_large"},
		{thole.ErrTrimmed, http.StatusGone, "trimmed"},
		{thole.ErrFenced, http.StatusConflict, "fenced"},
		{thole.ErrDeadlock, http.StatusConflict, "deadlock"},
		{thole.ErrCancelled, http.StatusConflict, "cancelled"},
		{thole.ErrCorrupt, http.StatusInternalServerError, "corrupt"},
		{thole.ErrClosed, http.StatusServiceUnavailable, "closed"},
		{thole.ErrUnavailable, http.StatusServiceUnavailable, "unavailable"},
		{context.Canceled, http.StatusServiceUnavailable, "closed"}, // by the server: a client that went away gets no answer
		{context.DeadlineExceeded, http.StatusServiceUnavailable, "closed"},
		{thole.ErrFull, http.StatusInsufficientStorage, "full"},
		{auth.ErrUnauthorized, http.StatusUnauthorized, "unauthorized"},
		{ErrForbidden, http.StatusForbidden, "forbidden"},
		{ErrRateLimited, http.StatusTooManyRequests, "rate_limited"},
		{errors.ErrUnsupported, http.StatusNotImplemented, "unsupported"},
		{errInternal, http.StatusInternalServerError, "internal"},
	}
}

// Code returns the stable code of err: what a problem says in its "code".
func Code(err error) string { return kindOf(err).code }

// Sentinel returns the error that a problem's code stands for, so that
// errors.Is works across HTTP. An unknown code is nil.
func Sentinel(code string) error {
	for _, k := range kinds() {
		if k.code == code {
			return k.err
		}
	}
	return nil
}

func kindOf(err error) kind {
	all := kinds()
	for _, k := range all {
		if errors.Is(err, k.err) {
			return k
		}
	}
	return all[len(all)-1]
}

// Problem is the body of every error, application/problem+json (RFC 9457).
type Problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	Code      string `json:"code" doc:"Stable; what a program decides on"`
	RequestID string `json:"request_id,omitempty"`

	Field   string      `json:"field,omitempty" doc:"invalid: the part of the request that is wrong"`
	Current string      `json:"current,omitempty" doc:"conflict: the version that is there; empty when there is none"`
	Holder  string      `json:"holder,omitempty" doc:"conflict over a lock: who has it"`
	Hash    string      `json:"hash,omitempty" doc:"conflict over a file: of what it is now"`
	Cycle   []lock.Wait `json:"cycle,omitempty" doc:"deadlock: who waits for what"`
	Reason  string      `json:"reason,omitempty" doc:"trimmed: why the state is to be read anew"`
	Oldest  string      `json:"oldest,omitempty" doc:"trimmed: the first position that is kept"`
	Last    string      `json:"last,omitempty" doc:"trimmed: the newest position"`
}

// statusError overrides the status that the table gives an error.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// fieldError is a part of a request that is wrong.
type fieldError struct{ field, reason string }

func (e *fieldError) Error() string { return fmt.Sprintf("%s: %s", e.field, e.reason) }
func (e *fieldError) Unwrap() error { return thole.ErrInvalid }

func invalid(field, format string, args ...any) error {
	return &fieldError{field: field, reason: fmt.Sprintf(format, args...)}
}

// problemOf describes err to the client, whom mask keeps from what it may not know.
func problemOf(err error, mask func(string) string) Problem {
	k := kindOf(err)
	p := Problem{Status: k.status, Code: k.code, Detail: err.Error()}
	var (
		conflict *thole.ConflictError
		trimmed  *thole.TrimmedError
		reused   *thole.ReusedKeyError
		field    *fieldError
		stale    *file.StaleError
		held     *lock.HeldError
		deadlock *lock.DeadlockError
		status   *statusError
	)
	if errors.As(err, &conflict) {
		p.Current = conflict.Actual.String()
	}
	if errors.As(err, &trimmed) {
		p.Reason, p.Oldest, p.Last = trimmed.Reason, trimmed.Oldest.String(), trimmed.Last.String()
	}
	if errors.As(err, &field) {
		p.Field = field.field
	}
	if errors.As(err, &stale) {
		p.Current, p.Hash = stale.Now.Version.String(), stale.Now.Hash
	}
	if errors.As(err, &held) {
		p.Holder = held.Owner
	}
	if errors.As(err, &deadlock) {
		p.Cycle = deadlock.Cycle
	}
	if errors.As(err, &reused) {
		p.Status = http.StatusUnprocessableEntity
	}
	if errors.As(err, &status) {
		p.Status = status.status
	}
	if k.err == errInternal {
		p.Detail = "something went wrong here; the server's log has it under the request id"
	}
	if k.err == thole.ErrUnavailable {
		p.Detail = "the store cannot be reached now; a change may have happened: send it again under the same Idempotency-Key"
	}
	if k.err == thole.ErrFull {
		p.Detail = "no space is left where the store is; nothing was lost, try again when there is some" // where that is is in the log
	}
	p.Detail = brief(mask(p.Detail)) // a cut must not leave half an id
	p.Holder = mask(p.Holder)
	p.Cycle = slices.Clone(p.Cycle)
	for i, w := range p.Cycle {
		p.Cycle[i] = lock.Wait{Owner: mask(w.Owner), Lock: mask(w.Lock)}
	}
	p.Type, p.Title = "urn:thole:problem:"+p.Code, http.StatusText(p.Status)
	return p
}

// conditional makes err a 412 if it is the request's own If-Match or
// If-None-Match that does not hold.
func (c *call) conditional(err error) error {
	h := c.r.Header
	if c.takes.param("header", "If-Match") != nil && errors.As(err, new(*thole.ConflictError)) && (h.Get("If-Match") != "" || h.Get("If-None-Match") != "") {
		return &statusError{http.StatusPreconditionFailed, err}
	}
	return err
}

// brief cuts the middle out of a text that repeats much of the request: it
// begins with what was done and ends with why it could not be.
func brief(s string) string {
	const begin, end = 150, 300
	if len(s) <= begin+end {
		return s
	}
	return strings.ToValidUTF8(s[:begin], "") + " … " + strings.ToValidUTF8(s[len(s)-end:], "")
}

// problem answers a request with err and logs what is the server's fault.
func (a *API) problem(w http.ResponseWriter, r *http.Request, id string, err error) {
	a.maskedProblem(w, r, id, err, asItIs)
}

func asItIs(text string) string { return text }

// maskedProblem is problem for an error that may name what the client may not
// know.
func (a *API) maskedProblem(w http.ResponseWriter, r *http.Request, id string, err error, mask func(string) string) {
	if r.Context().Err() != nil && errors.Is(err, context.Cause(r.Context())) {
		panic(http.ErrAbortHandler) // who closed only one half of the connection must not read a 200
	}
	h := w.Header()
	p := problemOf(err, mask)
	p.RequestID = id
	if p.Status == http.StatusInternalServerError || p.Code == "unavailable" {
		a.log.Error("request failed", "request", id, "method", r.Method, "route", r.Pattern, "error", err)
	}
	if p.Current != "" && p.Status == http.StatusPreconditionFailed {
		h.Set("ETag", etag(p.Current))
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

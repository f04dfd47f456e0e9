package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/thole-dev/thole/journal"
)

// Errors that only a server has.
var (
	ErrUnauthorized = errors.New("unauthorized") // no token, or one that is not known there
	ErrForbidden    = errors.New("forbidden")    // a token without an admin grant on the space
	ErrRateLimited  = errors.New("rate limited") // too many requests for too long
)

// Kind is a row of the table that maps an error to its code and status.
type Kind struct {
	Err    error
	Status int
	Code   string
}

// Kinds is the part of the REST API's table that a backend may meet, in the
// order in which an error is looked up.
func Kinds() []Kind {
	return []Kind{
		{journal.ErrNotFound, http.StatusNotFound, "not_found"},
		{journal.ErrExists, http.StatusConflict, "exists"},
		{journal.ErrConflict, http.StatusConflict, "conflict"},
		{journal.ErrInvalid, http.StatusBadRequest, "invalid"},
		{journal.ErrTooLarge, http.StatusRequestEntityTooLarge, "too_large"},
		{journal.ErrTrimmed, http.StatusGone, "trimmed"},
		{journal.ErrCorrupt, http.StatusInternalServerError, "corrupt"},
		{journal.ErrClosed, http.StatusServiceUnavailable, "closed"},
		{journal.ErrUnavailable, http.StatusServiceUnavailable, "unavailable"},
		{journal.ErrFull, http.StatusInsufficientStorage, "full"},
		{ErrUnauthorized, http.StatusUnauthorized, "unauthorized"},
		{ErrForbidden, http.StatusForbidden, "forbidden"},
		{ErrRateLimited, http.StatusTooManyRequests, "rate_limited"},
		{errors.ErrUnsupported, http.StatusNotImplemented, "unsupported"},
	}
}

// Problem is what a client reads of an error's body (RFC 9457).
type Problem struct {
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Code   string `json:"code"`

	Reason string           `json:"reason,omitempty"` // trimmed
	Oldest journal.Position `json:"oldest,omitzero"`
	Last   journal.Position `json:"last,omitzero"`
}

// ProblemOf describes err. One that is not in the table is "internal".
func ProblemOf(err error) Problem {
	p := Problem{Status: http.StatusInternalServerError, Code: "internal", Detail: err.Error()}
	for _, k := range Kinds() {
		if errors.Is(err, k.Err) {
			p.Status, p.Code = k.Status, k.Code
			break
		}
	}
	var trimmed *journal.TrimmedError
	if errors.As(err, &trimmed) {
		p.Reason, p.Oldest, p.Last = trimmed.Reason, trimmed.Oldest, trimmed.Last
	}
	return p
}

// problemIn describes an error within an answer; nil: there is none. What only a
// server's log may say is left out.
func problemIn(err error) *Problem {
	if err == nil {
		return nil
	}
	p := ProblemOf(err)
	if p.Code == "internal" {
		p.Detail = "something is wrong with the space; the server's log has it"
	}
	return &p
}

// err is the error that the client gets.
func (p *Problem) err() error {
	if p == nil {
		return nil
	}
	return &refusal{Problem: *p, sentinel: sentinelOf(p.Code)}
}

func sentinelOf(code string) error {
	for _, k := range Kinds() {
		if k.Code == code {
			return k.Err
		}
	}
	return nil
}

// refusal is an error that the server answered with.
type refusal struct {
	Problem
	sentinel error // nil: the code says nothing to us
	instance string
	unknown  bool // some of the batch may have been applied
	after    int  // seconds; 0: the server did not say
}

func (e *refusal) Error() string {
	switch e.sentinel {
	case ErrUnauthorized:
		return "the server does not accept the token: set THOLE_TOKEN to one that it knows (see `thole token`)"
	case ErrForbidden:
		return e.Detail + "; a store that is used through another server needs an admin grant"
	}
	return fmt.Sprintf("the server says %d: %s", e.Status, e.Detail)
}

func (e *refusal) Unwrap() error { return e.sentinel }

// readRefusal makes an error of an answer that is none. It is nil when no Thole
// wrote it.
func readRefusal(status int, header http.Header, body []byte) *refusal {
	e := &refusal{instance: header.Get(HeaderInstance), unknown: header.Get(HeaderOutcome) == Unknown}
	if json.Unmarshal(body, &e.Problem) != nil || e.Code == "" {
		return nil
	}
	e.Status = status
	fmt.Sscanf(header.Get("Retry-After"), "%d", &e.after)
	e.sentinel = sentinelOf(e.Code)
	return e
}

// lost is a request without an answer from a Thole.
type lost struct {
	err  error
	sent bool // it may have arrived
}

func (e *lost) Error() string   { return e.err.Error() }
func (e *lost) Unwrap() []error { return []error{journal.ErrUnavailable, e.err} }

// Package problem maps each error to an HTTP status and a stable code, and each code
// back to its error, so that errors.Is works across HTTP. The server, the remote
// backend and clients share this one table.
package problem

import (
	"context"
	"errors"
	"net/http"

	"github.com/thole-dev/thole/journal"
)

// Errors that exist only at the border.
var (
	ErrUnauthorized = errors.New("unauthorized") // no token, or an unknown one
	ErrForbidden    = errors.New("forbidden")    // a valid token without the necessary grant
	ErrRateLimited  = errors.New("rate limited") // try again later
	ErrInternal     = errors.New("internal")     // any other error
)

// Kind is a row of the table.
type Kind struct {
	Err    error
	Status int
	Code   string
}

// Kinds returns the table, in the order in which errors are looked up. A code stands
// for the first error that has it.
func Kinds() []Kind {
	return []Kind{
		{journal.ErrNotFound, http.StatusNotFound, "not_found"},
		{journal.ErrExists, http.StatusConflict, "exists"},
		{journal.ErrConflict, http.StatusConflict, "conflict"},
		{journal.ErrInvalid, http.StatusBadRequest, "invalid"},
		{journal.ErrTooLarge, http.StatusRequestEntityTooLarge, "too_large"},
		{journal.ErrTrimmed, http.StatusGone, "trimmed"},
		{journal.ErrFenced, http.StatusConflict, "fenced"},
		{journal.ErrDeadlock, http.StatusConflict, "deadlock"},
		{journal.ErrCancelled, http.StatusConflict, "cancelled"},
		{journal.ErrCorrupt, http.StatusInternalServerError, "corrupt"},
		{journal.ErrClosed, http.StatusServiceUnavailable, "closed"},
		{journal.ErrUnavailable, http.StatusServiceUnavailable, "unavailable"},
		{context.Canceled, http.StatusServiceUnavailable, "closed"}, // cancelled by the server: a client that disconnected gets no response
		{context.DeadlineExceeded, http.StatusServiceUnavailable, "closed"},
		{journal.ErrFull, http.StatusInsufficientStorage, "full"},
		{ErrUnauthorized, http.StatusUnauthorized, "unauthorized"},
		{ErrForbidden, http.StatusForbidden, "forbidden"},
		{ErrRateLimited, http.StatusTooManyRequests, "rate_limited"},
		{errors.ErrUnsupported, http.StatusNotImplemented, "unsupported"},
		{ErrInternal, http.StatusInternalServerError, "internal"},
	}
}

// KindOf returns the row of err, or that of ErrInternal.
func KindOf(err error) Kind {
	all := Kinds()
	for _, k := range all {
		if errors.Is(err, k.Err) {
			return k
		}
	}
	return all[len(all)-1]
}

// Code returns the stable code of err.
func Code(err error) string { return KindOf(err).Code }

// Sentinel returns the error that a code stands for; nil for "internal" and for unknown
// codes.
func Sentinel(code string) error {
	for _, k := range Kinds() {
		if k.Code == code && k.Err != ErrInternal {
			return k.Err
		}
	}
	return nil
}

// Problem is the body of every error response, application/problem+json (RFC 9457).
type Problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	Code      string `json:"code" doc:"stable; what a program decides on"`
	RequestID string `json:"request_id,omitempty"`

	Field   string           `json:"field,omitempty" doc:"invalid: the part of the request that is wrong: the name of a parameter or a header, or the JSON pointer of a part of the body"`
	Current journal.Position `json:"current,omitzero" doc:"conflict: the version that is there; absent when there is none"`
	Holder  string           `json:"holder,omitempty" doc:"conflict over a lock: who has it"`
	Hash    string           `json:"hash,omitempty" doc:"conflict over a file: of what it is now"`
	Cycle   []Wait           `json:"cycle,omitempty" doc:"deadlock: who waits for what"`
	Reason  string           `json:"reason,omitempty" doc:"trimmed: why the state is to be read anew"`
	Oldest  journal.Position `json:"oldest,omitzero" doc:"trimmed: the first position that is kept"`
	Last    journal.Position `json:"last,omitzero" doc:"trimmed: the newest position"`
}

// Wait is an owner of locks that waits for one.
type Wait struct {
	Owner string `json:"owner"`
	Lock  string `json:"lock"`
}

// Of describes err by the table and by the fields of the kernel's errors.
func Of(err error) Problem {
	k := KindOf(err)
	p := Problem{
		Type: "urn:thole:problem:" + k.Code, Title: http.StatusText(k.Status), Status: k.Status, Code: k.Code, Detail: err.Error(),
	}
	var (
		conflict *journal.ConflictError
		trimmed  *journal.TrimmedError
	)
	if errors.As(err, &conflict) {
		p.Current = conflict.Actual
	}
	if errors.As(err, &trimmed) {
		p.Reason, p.Oldest, p.Last = trimmed.Reason, trimmed.Oldest, trimmed.Last
	}
	return p
}

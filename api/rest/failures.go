package rest

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal/problem"
)

// failure says what an error means for one operation.
type failure struct {
	err  error
	when string
}

// status returns the failure's own status, or that of the table of errors.
func (f failure) status() int {
	var own *statusError
	if errors.As(f.err, &own) {
		return own.status
	}
	return problem.KindOf(f.err).Status
}

// allFailures returns the failures of an operation: those it lists, and those that
// follow from its access, path and input. It leaves out failures that any server has:
// those are the document's default answer.
func (op *operation) allFailures() []failure {
	all := slices.Clone(op.failures)
	add := func(holds bool, err error, when string) {
		if holds {
			all = append(all, failure{err, when})
		}
	}
	body, space := op.does.body != nil, op.inSpace()
	_, below, thread := strings.Cut(op.path, "{thread}")
	named := "thread"
	for _, m := range pathParam.FindAllStringSubmatch(below, -1) {
		named += ", " + m[1]
	}
	conditional := op.does.param("header", "If-Match") != nil
	past := slices.ContainsFunc(op.parameters(), (*param).isPosition)
	add(true, thole.ErrInvalid, "a part of the request is invalid or unknown; field says which")
	add(op.access != public, problem.ErrUnauthorized, "there is no token, or it is unknown")
	add(op.access != public, problem.ErrForbidden, "the token does not allow it")
	add(thread, thole.ErrNotFound, "there is no such "+named+", or it is hidden from this caller")
	add(past, thole.ErrTrimmed, "the position is no longer kept, or never was; reason says why, oldest and last say which positions are kept")
	add(space, thole.ErrFenced, "a lease of Thole-Fence has ended or has another holder")
	add(conditional, &statusError{http.StatusPreconditionFailed, thole.ErrConflict}, "the precondition does not hold; current is the current version")
	add(body || space, thole.ErrTooLarge, "a part of the request is larger than its limit")
	add(body, &statusError{http.StatusRequestTimeout, thole.ErrInvalid}, "the body did not come in time")
	add(body, &statusError{http.StatusUnsupportedMediaType, thole.ErrInvalid}, "the body is of another media type")
	add(op.takesKey(), &statusError{http.StatusUnprocessableEntity, thole.ErrInvalid}, "the Idempotency-Key was used for another request")
	add(op.takesKey(), thole.ErrExists, "it was done before under this Idempotency-Key, but its answer is no longer kept")
	add(op.access != public, problem.ErrRateLimited, "the caller makes too many requests; Retry-After says when to try again")
	return all
}

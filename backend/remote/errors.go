package remote

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/journal/problem"
)

// problemIn returns the problem for an error in a Result, nil for nil. It hides the
// details of internal errors, which only the server's log may show.
func problemIn(err error) *problem.Problem {
	if err == nil {
		return nil
	}
	p := problem.Of(err)
	if p.Code == "internal" {
		p.Detail = "something is wrong with the space; the server's log has it"
	}
	return &p
}

// errorOf returns the error for a problem in a Result, nil for nil.
func errorOf(p *problem.Problem) error {
	if p == nil {
		return nil
	}
	return &refusal{Problem: *p, sentinel: problem.Sentinel(p.Code)}
}

// refusal is an error response of the server.
type refusal struct {
	problem.Problem
	sentinel error // nil: the code is not known
	instance string
	unknown  bool // some of the batch may have been applied
	after    int  // seconds; 0: the server did not say
}

func (e *refusal) Error() string {
	switch e.sentinel {
	case problem.ErrUnauthorized:
		return "the server does not accept the token: set THOLE_TOKEN to one that it knows (see `thole token`)"
	case problem.ErrForbidden:
		return e.Detail + "; a store that is used through another server needs an admin grant"
	}
	return fmt.Sprintf("the server says %d: %s", e.Status, e.Detail)
}

func (e *refusal) Unwrap() error { return e.sentinel }

// readRefusal parses an error response; nil if the body is not a Thole problem.
func readRefusal(status int, header http.Header, body []byte) *refusal {
	e := &refusal{instance: header.Get(HeaderInstance), unknown: header.Get(HeaderOutcome) == Unknown}
	if json.Unmarshal(body, &e.Problem) != nil || e.Code == "" {
		return nil
	}
	e.Status = status
	fmt.Sscanf(header.Get("Retry-After"), "%d", &e.after)
	e.sentinel = problem.Sentinel(e.Code)
	return e
}

// lost is the error of a request that no Thole server answered.
type lost struct {
	err  error
	sent bool // the request may have arrived
}

func (e *lost) Error() string   { return e.err.Error() }
func (e *lost) Unwrap() []error { return []error{journal.ErrUnavailable, e.err} }

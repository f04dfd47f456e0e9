package remote

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/journal/problem"
)

// problemIn describes an error within an answer; nil: there is none. What only a
// server's log may say is left out.
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

// errorOf is the error that the client gets for a problem within an answer.
func errorOf(p *problem.Problem) error {
	if p == nil {
		return nil
	}
	return &refusal{Problem: *p, sentinel: problem.Sentinel(p.Code)}
}

// refusal is an error that the server answered with.
type refusal struct {
	problem.Problem
	sentinel error // nil: the code says nothing to us
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

// readRefusal makes an error of an answer that is none. It is nil when no Thole
// wrote it.
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

// lost is a request without an answer from a Thole.
type lost struct {
	err  error
	sent bool // it may have arrived
}

func (e *lost) Error() string   { return e.err.Error() }
func (e *lost) Unwrap() []error { return []error{journal.ErrUnavailable, e.err} }

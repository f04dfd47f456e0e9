package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/journal"
)

// change returns a handler for a request that changes something. It carries the
// change out once, however often the client sends it.
func change(spaces func(*remote.Request) []string, do does) func(*Server, *Call) error {
	return func(s *Server, c *Call) error {
		c.W.Header().Set(remote.HeaderInstance, s.instance)
		if to := c.R.Header.Get(remote.HeaderInstance); to != s.instance {
			return &ElsewhereError{Instance: to}
		}
		n, err := parseNumber(c.R.Header.Get(remote.HeaderChange))
		if err != nil {
			return err
		}
		req, body, err := s.request(c, spaces)
		if err != nil {
			return err
		}
		if len(spaces(req)) == 0 { // no grant was checked
			return fmt.Errorf("%w: the request names no space", journal.ErrInvalid)
		}
		o, first, err := s.ledger.enter(c.Caller, n, digestOf(c.R.URL.Path, body), s.opts.Draining.Err() != nil)
		if err != nil {
			return err
		}
		if first {
			// The client may disconnect and ask for the outcome later.
			o.set(s.carryOut(context.WithoutCancel(c.R.Context()), req, do))
		}
		select {
		case <-o.known:
		case <-c.R.Context().Done():
			return context.Cause(c.R.Context())
		}
		if o.err != nil {
			if !untouched(o.err) {
				c.W.Header().Set(remote.HeaderOutcome, remote.Unknown)
			}
			return o.err
		}
		return s.answer(c, o.body)
	}
}

// carryOut calls do and encodes its answer.
func (s *Server) carryOut(ctx context.Context, req *remote.Request, do does) (body []byte, err error) {
	defer func() {
		if p := recover(); p != nil { // copies of the request wait for the outcome
			body, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	a, err := do(s, ctx, req)
	if err != nil {
		return nil, err
	}
	return a.Encode()
}

// untouched reports whether a change that failed with err certainly changed nothing.
func untouched(err error) bool {
	for _, sure := range []error{journal.ErrInvalid, journal.ErrTooLarge, journal.ErrClosed, journal.ErrNotFound, journal.ErrExists, journal.ErrTrimmed} {
		if errors.Is(err, sure) {
			return true
		}
	}
	return false
}

func isElsewhere(err error) bool { return errors.As(err, new(*ElsewhereError)) }

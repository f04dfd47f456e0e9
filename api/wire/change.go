package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/journal"
)

// change answers what is carried out once, however often it is sent.
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
		if len(spaces(req)) == 0 { // then no grant was asked for
			return fmt.Errorf("%w: the request names no space", journal.ErrInvalid)
		}
		o, first, err := s.ledger.enter(c.Caller, n, digestOf(c.R.URL.Path, body), s.opts.Draining.Err() != nil)
		if err != nil {
			return err
		}
		if first {
			// The client may go away and come back for the outcome.
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

// carryOut does what is asked for and encodes the answer.
func (s *Server) carryOut(ctx context.Context, req *remote.Request, do does) (body []byte, err error) {
	defer func() {
		if p := recover(); p != nil { // whoever waits for the outcome must not wait for ever
			body, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	a, err := do(s, ctx, req)
	if err != nil {
		return nil, err
	}
	return a.Encode()
}

// untouched reports whether nothing was changed by what ended with err.
func untouched(err error) bool {
	for _, sure := range []error{journal.ErrInvalid, journal.ErrTooLarge, journal.ErrClosed, journal.ErrNotFound, journal.ErrExists, journal.ErrTrimmed} {
		if errors.Is(err, sure) {
			return true
		}
	}
	return false
}

func isElsewhere(err error) bool { return errors.As(err, new(*ElsewhereError)) }

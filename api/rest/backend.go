package rest

import (
	"errors"
	"net/http"

	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/wire"
)

// backendRoutes offer the store to the Stores of other programs, as their
// backend: see package wire.
func backendRoutes() []route {
	var all []route
	for _, op := range wire.Operations() {
		do := gives(func(c *call) (sent, error) { return sent{}, c.backend(op) })
		do.binary, do.response = true, nil
		do.takes, do.gives = op.Takes, op.Gives
		all = append(all, route{method: op.Method, path: op.Path, tag: "backend", access: anyToken, summary: op.Summary, status: http.StatusOK, do: do})
	}
	return all
}

// backend answers an operation of package wire, which admin grants allow.
func (c *call) backend(op wire.Operation) error {
	w := &wire.Call{W: c.w, R: c.r}
	if c.token != nil {
		w.Caller = c.token.ID
	}
	if c.token != nil && accepts(c.r, "text/event-stream") {
		known, forget := c.whileKnown(c.r.Context())
		defer forget()
		w.R = c.r.WithContext(known)
	}
	if c.token != nil {
		w.Again = c.identify
		w.May = func(space string) error {
			_, err := c.allowed(space, auth.Admin)
			return err
		}
	}
	err := op.Serve(c.api.wire, w)
	if errors.As(err, new(*wire.ElsewhereError)) {
		return &statusError{http.StatusMisdirectedRequest, err}
	}
	return err
}

package rest

import (
	"errors"
	"io"
	"net/http"

	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/wire"
	"github.com/thole-dev/thole/journal"
)

// backendOperations returns the operations that serve the store to the Stores of
// other programs, as their backend: see package wire.
func backendOperations() []operation {
	var all []operation
	for _, op := range wire.Operations() {
		one := operation{
			id: op.Name, method: op.Method, path: op.Path, access: anyToken, needs: op.Needs, status: http.StatusOK,
			summary: op.Summary, takes: op.Takes, gives: op.Gives, failures: backendFailures(),
			does: does(func(c *call, _ none) (sent, error) { return sent{}, c.backend(op) }),
		}
		if op.Takes != "" {
			one.does = does(func(c *call, _ backendIn) (sent, error) { return sent{}, c.backend(op) })
		}
		all = append(all, one)
	}
	return all
}

// backendIn is a message of package remote. Package wire reads it.
type backendIn struct{ Body io.Reader }

func backendFailures() []failure {
	return []failure{
		{journal.ErrConflict, "the change was made already"},
		{journal.ErrExists, "a load is into a space that exists"},
		{journal.ErrNotFound, "there is no such space"},
		{journal.ErrTrimmed, "a read begins after a position that is not kept"},
		{journal.ErrTooLarge, "the message or its answer is too large"},
		{&statusError{http.StatusMisdirectedRequest, journal.ErrConflict}, "the message is for another process of the server"},
	}
}

// backend answers an operation of package wire. It needs admin grants.
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

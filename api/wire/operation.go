package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/journal/problem"
)

// Operation is one kind of call that a Server answers.
type Operation struct {
	Name, Method, Path, Summary string
	Needs                       string // the grants that a call needs; "": none
	Takes, Gives                string // media types of the body and the answer; "": none
	// Serve answers a call. If it returns an error, it has written no answer.
	Serve func(*Server, *Call) error
}

// Operations returns all operations.
func Operations() []Operation {
	const root, message, events = remote.Root, remote.MediaType, "text/event-stream"
	const each, all = "a grant to admin each space that the message names", "a grant to admin *"
	const kernels = each + ", and * for the kernel's own streams and keys"
	return []Operation{
		{"getBackend", "GET", root, "Read the server's identity, durability and version", "", "", "application/json", (*Server).hello},
		{"backendCommit", "POST", root + "/commit", "Commit a batch", kernels, message, message, change(spacesOfBatch, (*Server).commit)},
		{"backendLoad", "POST", root + "/load", "Import a part of a space", kernels, message, message, change(spacesOfLoad, (*Server).load)},
		{"backendPurge", "POST", root + "/purge", "Delete for good", kernels, message, message, change(spacesOfPurge, (*Server).purge)},
		{"backendGet", "POST", root + "/get", "Get records as stored", each, message, message, question(oneSpace, (*Server).get)},
		{"backendList", "POST", root + "/list", "List records as stored", each, message, message, question(oneSpace, (*Server).list)},
		{"backendRead", "POST", root + "/read", "Read a page of a journal", each, message, message, question(oneSpace, (*Server).read)},
		{"backendHeads", "POST", root + "/heads", "Read where journals begin and end", each, message, message, question(spacesByName, (*Server).heads)},
		{"backendSpaces", "POST", root + "/spaces", "List spaces", all, message, message, question(allSpaces, (*Server).spaces)},
		{"backendWatch", "GET", root + "/watch", "Receive hints of changed spaces as an event stream", all, "", events, (*Server).watch},
		{"backendBroadcast", "POST", root + "/broadcasts", "Send broadcasts", each, message, message, question(spacesOfBroadcasts, (*Server).send)},
		{"backendBroadcasts", "GET", root + "/broadcasts", "Receive the broadcasts of all spaces as an event stream", all, "", events, (*Server).receive},
	}
}

func oneSpace(r *remote.Request) []string     { return []string{r.Space} }
func spacesByName(r *remote.Request) []string { return r.Names }
func allSpaces(*remote.Request) []string      { return []string{everything} }

// everything stands for all spaces. Access to what the kernel keeps, in whatever
// space, takes admin of it: see [thole.Reserved].
const everything = "*"

func spacesOfBatch(r *remote.Request) []string {
	names := distinct(len(r.Batch), func(i int) string { return r.Batch[i].Space })
	for i := range r.Batch {
		if thole.AnyReserved(r.Batch[i].Names()) {
			return append(names, everything)
		}
	}
	return names
}

func spacesOfLoad(r *remote.Request) []string {
	if thole.AnyReserved(r.Chunk.Names()) || r.Space == "global" {
		return []string{r.Space, everything}
	}
	return []string{r.Space}
}

// spacesOfPurge returns the spaces that a purge needs admin of: all, if it removes
// streams of the kernel or from global, which holds the tokens.
func spacesOfPurge(r *remote.Request) []string {
	if slices.ContainsFunc(r.Purge.Streams, thole.Reserved) || r.Space == "global" {
		return []string{r.Space, everything}
	}
	return []string{r.Space}
}

func spacesOfBroadcasts(r *remote.Request) []string {
	return distinct(len(r.Broadcasts), func(i int) string { return r.Broadcasts[i].Space })
}

func distinct(n int, name func(int) string) []string {
	var names []string
	seen := make(map[string]bool)
	for i := range n {
		if space := name(i); !seen[space] {
			seen[space] = true
			names = append(names, space)
		}
	}
	return names
}

// does carries out a request.
type does func(s *Server, ctx context.Context, r *remote.Request) (*remote.Answer, error)

// question returns a handler for a request that changes nothing.
func question(spaces func(*remote.Request) []string, do does) func(*Server, *Call) error {
	return func(s *Server, c *Call) error {
		req, _, err := s.request(c, spaces)
		if err != nil {
			return err
		}
		a, err := do(s, c.R.Context(), req)
		if err != nil {
			return err
		}
		body, err := a.Encode()
		if err != nil {
			return err
		}
		return s.answer(c, body)
	}
}

// request reads the body and checks that the caller may use its spaces.
func (s *Server) request(c *Call, spaces func(*remote.Request) []string) (*remote.Request, []byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(c.W, c.R.Body, remote.MaxRequest))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, nil, fmt.Errorf("%w: the request has more than %d bytes", journal.ErrTooLarge, remote.MaxRequest)
	case err != nil:
		return nil, nil, fmt.Errorf("%w: the request could not be read: %v", journal.ErrInvalid, err)
	}
	http.NewResponseController(c.W).SetReadDeadline(time.Time{}) // the store may take longer
	req, err := remote.DecodeRequest(body)
	if err != nil {
		return nil, nil, err
	}
	if err := c.may(spaces(req)...); err != nil {
		return nil, nil, err
	}
	if c.may(everything) != nil {
		s.clamp(req)
	}
	return req, body, nil
}

// answer writes a message. It gives up when the client reads nothing for
// Options.Stall.
func (s *Server) answer(c *Call, body []byte) error {
	c.W.Header().Set("Content-Type", remote.MediaType)
	c.W.Header().Set("Content-Length", fmt.Sprint(len(body)))
	rc := http.NewResponseController(c.W)
	for len(body) > 0 {
		part := body[:min(len(body), 1<<20)]
		rc.SetWriteDeadline(time.Now().Add(s.opts.Stall)) // best effort: not every writer has deadlines
		if _, err := c.W.Write(part); err != nil {
			return nil // the client has disconnected
		}
		body = body[len(part):]
	}
	return nil
}

func (s *Server) commit(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	results, err := s.store.Apply(ctx, r.Batch)
	for i := range results {
		failed, space := results[i].Err, r.Batch[i].Space
		switch {
		case failed == nil:
		case !r.Partial: // else the client would take it for success
			return nil, fmt.Errorf("%w: %s does not take commits: %v", journal.ErrUnavailable, space, failed)
		case problem.Of(failed).Status >= http.StatusInternalServerError: // the operators of this server can help, not those of the client
			s.opts.Logger.Error("a commit of another store failed", "space", space, "error", failed)
		}
	}
	return &remote.Answer{Results: results}, err
}

func (s *Server) load(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	return &remote.Answer{}, s.store.Load(ctx, r.Space, r.Chunk)
}

func (s *Server) purge(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	return &remote.Answer{}, s.store.Purge(ctx, r.Space, r.Purge)
}

func (s *Server) send(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	return &remote.Answer{}, s.store.SendBroadcasts(ctx, r.Broadcasts)
}

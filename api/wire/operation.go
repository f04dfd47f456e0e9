package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/remote"
)

// Operation is one of the calls that a Server answers.
type Operation struct {
	Method, Path, Summary string
	// Serve answers a call. An error that it returns was not answered yet.
	Serve func(*Server, *Call) error
}

// Operations is all that there is.
func Operations() []Operation {
	const root = remote.Root
	return []Operation{
		{"GET", root, "Who the server is, for other servers and programs that use it as their store", (*Server).hello},
		{"POST", root + "/commit", "Commit a batch; admin on each space", change(spacesOfBatch, (*Server).commit)},
		{"POST", root + "/load", "Import a part of a space; admin", change(oneSpace, (*Server).load)},
		{"POST", root + "/purge", "Remove for good; admin", change(oneSpace, (*Server).purge)},
		{"POST", root + "/get", "Get records as they are; admin", question(oneSpace, (*Server).get)},
		{"POST", root + "/list", "List records as they are; admin", question(oneSpace, (*Server).list)},
		{"POST", root + "/read", "Read a page of a journal; admin", question(oneSpace, (*Server).read)},
		{"POST", root + "/heads", "Where journals begin and end; admin on each space", question(spacesByName, (*Server).heads)},
		{"POST", root + "/spaces", "List spaces; admin on *", question(allSpaces, (*Server).spaces)},
		{"GET", root + "/watch", "Hints at changed spaces as an event stream; admin on *", (*Server).watch},
		{"POST", root + "/signals", "Send signals; admin on each space", question(spacesOfSignals, (*Server).send)},
		{"GET", root + "/signals", "Signals of all spaces as an event stream; admin on *", (*Server).receive},
	}
}

func oneSpace(r *remote.Request) []string     { return []string{r.Space} }
func spacesByName(r *remote.Request) []string { return r.Names }
func allSpaces(*remote.Request) []string      { return []string{"*"} }

func spacesOfBatch(r *remote.Request) []string {
	return distinct(len(r.Batch), func(i int) string { return r.Batch[i].Space })
}

func spacesOfSignals(r *remote.Request) []string {
	return distinct(len(r.Signals), func(i int) string { return r.Signals[i].Space })
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

// does is what an operation does with a request.
type does func(s *Server, ctx context.Context, r *remote.Request) (*remote.Answer, error)

// question answers what may be asked twice.
func question(spaces func(*remote.Request) []string, do does) func(*Server, *Call) error {
	return func(s *Server, c *Call) error {
		req, err := s.request(c, spaces)
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

// request reads the body and asks whether the caller may.
func (s *Server) request(c *Call, spaces func(*remote.Request) []string) (*remote.Request, error) {
	body, err := io.ReadAll(http.MaxBytesReader(c.W, c.R.Body, remote.MaxRequest))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, fmt.Errorf("%w: the request has more than %d bytes", thole.ErrTooLarge, remote.MaxRequest)
	case err != nil:
		return nil, fmt.Errorf("%w: the request could not be read: %v", thole.ErrInvalid, err)
	}
	http.NewResponseController(c.W).SetReadDeadline(time.Time{}) // the store may take its time
	req, err := remote.DecodeRequest(body)
	if err != nil {
		return nil, err
	}
	return req, c.may(spaces(req)...)
}

// answer writes a message. A client that takes nothing of it for Options.Stall
// is given up.
func (s *Server) answer(c *Call, body []byte) error {
	c.W.Header().Set("Content-Type", remote.MediaType)
	c.W.Header().Set("Content-Length", fmt.Sprint(len(body)))
	rc := http.NewResponseController(c.W)
	for len(body) > 0 {
		part := body[:min(len(body), 1<<20)]
		rc.SetWriteDeadline(time.Now().Add(s.opts.Stall)) // not every writer can: then there is no bound
		if _, err := c.W.Write(part); err != nil {
			return nil // the client is gone
		}
		body = body[len(part):]
	}
	return nil
}

func (s *Server) commit(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	results, err := s.store.Apply(ctx, r.Batch)
	return &remote.Answer{Results: results}, err
}

func (s *Server) load(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	return &remote.Answer{}, s.store.Load(ctx, r.Space, r.Chunk)
}

func (s *Server) purge(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	return &remote.Answer{}, s.store.Space(r.Space).Purge(ctx, r.Purge)
}

func (s *Server) get(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	records, err := s.store.Backend().Get(ctx, r.Space, r.Names...)
	return &remote.Answer{Records: records}, err
}

func (s *Server) list(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	records, err := s.store.Backend().List(ctx, r.Space, r.List)
	return &remote.Answer{Records: records}, err
}

func (s *Server) read(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	page, err := s.store.Backend().Read(ctx, r.Space, r.Read)
	return &remote.Answer{Page: page}, err
}

func (s *Server) heads(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	heads, err := s.store.Backend().Heads(ctx, r.Names...)
	return &remote.Answer{Heads: heads}, err
}

func (s *Server) spaces(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	names, err := s.store.Backend().Spaces(ctx, r.Spaces)
	return &remote.Answer{Names: names}, err
}

func (s *Server) send(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	return &remote.Answer{}, s.store.Signals().Send(ctx, r.Signals)
}

package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal/problem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an API on a fresh store behind a real listener.
type server struct {
	t     *testing.T
	store *thole.Store
	api   *rest.API
	http  *httptest.Server
	token string
}

func serve(t *testing.T, opts *rest.Options) *server {
	t.Helper()
	store, err := thole.Open(context.Background(), memstore.New(), &thole.Options{Concepts: rest.Concepts()})
	if err != nil {
		t.Fatal(err)
	}
	return serveStore(t, store, opts)
}

func serveStore(t *testing.T, store *thole.Store, opts *rest.Options) *server {
	t.Helper()
	var o rest.Options
	if opts != nil {
		o = *opts
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	api := rest.New(store, &o)
	s := &server{t: t, store: store, api: api, http: httptest.NewServer(api)}
	t.Cleanup(func() {
		api.Drain()
		s.http.Close()
		store.Close()
	})
	return s
}

// serveWithTokens makes opts check the tokens of a new store.
func serveWithTokens(t *testing.T, opts *rest.Options) *server {
	t.Helper()
	store, err := thole.Open(context.Background(), memstore.New(), &thole.Options{Concepts: rest.Concepts()})
	if err != nil {
		t.Fatal(err)
	}
	var o rest.Options
	if opts != nil {
		o = *opts
	}
	o.Auth = auth.NewTokens(store)
	return serveStore(t, store, &o)
}

// as returns the same server, called with a new token that has the grants.
func (s *server) as(actor string, grants ...auth.Grant) *server {
	s.t.Helper()
	secret, _, err := auth.Create(s.t.Context(), s.store, auth.Token{Actor: actor, Grants: grants})
	if err != nil {
		s.t.Fatal(err)
	}
	c := *s
	c.token = secret
	return &c
}

// reply is the answer to a request.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request. body may be nil, a string, which is sent as it is, or anything
// else, which is sent as JSON. headers are pairs.
func (s *server) do(method, path string, body any, headers ...string) reply {
	s.t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			s.t.Fatal(err)
		}
		r = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.http.URL+path, r)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return reply{resp.StatusCode, resp.Header, data}
}

// want is do for a request that must get this status. It reads the answer into out
// unless that is nil.
func (s *server) want(status int, out any, method, path string, body any, headers ...string) reply {
	s.t.Helper()
	r := s.do(method, path, body, headers...)
	if r.status != status {
		s.t.Fatalf("%s %s: status %d, want %d: %s", method, path, r.status, status, r.body)
	}
	if out != nil {
		if err := json.Unmarshal(r.body, out); err != nil {
			s.t.Fatalf("%s %s: %v in %s", method, path, err, r.body)
		}
	}
	return r
}

// problem reads an answer that must be a problem.
func (r reply) problem(t *testing.T) problem.Problem {
	t.Helper()
	var p problem.Problem
	if ct := r.header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("Content-Type = %q, want application/problem+json (%d %s)", ct, r.status, r.body)
	}
	if err := json.Unmarshal(r.body, &p); err != nil {
		t.Errorf("problem: %v in %s", err, r.body)
	}
	if p.Status != r.status || p.Code == "" || p.Type == "" || p.Title == "" {
		t.Errorf("problem is not complete: %s", r.body)
	}
	return p
}

// refuse sends a request that must get a problem with this status and code.
func (s *server) refuse(status int, code, method, path string, body any, headers ...string) problem.Problem {
	s.t.Helper()
	r := s.do(method, path, body, headers...)
	p := r.problem(s.t)
	if r.status != status || p.Code != code {
		s.t.Errorf("%s %.100s: %d %s (%s), want %d %s", method, path, r.status, p.Code, p.Detail, status, code)
	}
	return p
}

// after returns the parameter for the page after a cursor; "": the first page.
func after(cursor string) string {
	if cursor == "" {
		return ""
	}
	return "&cursor=" + url.QueryEscape(cursor)
}

// committed is the answer to an event or a commit.
type committed struct {
	First    thole.Position `json:"first"`
	Position thole.Position `json:"position"`
}

func (s *server) addEvent(space, typ string, data any) thole.Position {
	s.t.Helper()
	var c committed
	s.want(201, &c, "POST", "/v1/spaces/"+space+"/events", map[string]any{"type": typ, "data": data})
	return c.Position
}

package rest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
)

func TestBadInputIsAClearProblem(t *testing.T) {
	s := serve(t, &rest.Options{MaxBody: 2 << 20})
	const events, commits = "/v1/spaces/project:a/events", "/v1/spaces/project:a/commits"
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	tests := []struct {
		name, method, path, body string
		status                   int
		code, field              string
	}{
		{"no body", "POST", events, ``, 400, "invalid", "body"},
		{"not JSON", "POST", events, `{"type":`, 400, "invalid", "body"},
		{"two values", "POST", events, `{"type":"a.b"} {}`, 400, "invalid", "body"},
		{"no object", "POST", events, `[]`, 400, "invalid", "body"},
		{"null", "POST", events, `null`, 400, "invalid", "body"},
		{"not UTF-8", "POST", events, "{\"type\":\"a.\xff\"}", 400, "invalid", "/type"},
		{"unknown field", "POST", events, `{"type":"a.b","dta":1}`, 400, "invalid", "/dta"},
		{"field in other case", "POST", events, `{"Type":"a.b"}`, 400, "invalid", "/Type"},
		{"wrong type", "POST", events, `{"type":7}`, 400, "invalid", "/type"},
		{"wrong nested type", "POST", commits, `{"writes":[{"key":"app/x","value":1},{"key":true}]}`, 400, "invalid", "/writes/1/key"},
		{"unknown nested field", "POST", commits, `{"events":[{"type":"a.b","x":1}]}`, 400, "invalid", "/events/0/x"},
		{"bad position", "POST", commits, `{"checks":[{"key":"app/x","at":"1"}]}`, 400, "invalid", "/checks/0/at"},
		{"bad time", "POST", commits, `{"writes":[{"key":"app/x","value":1,"expires_at":"soon"}]}`, 400, "invalid", "/writes/0/expires_at"},
		{"expiry outside of app/", "POST", commits, `{"writes":[{"key":"app/x","value":1},{"key":"mine/x","value":1,"expires_at":"2030-01-31T12:00:00Z"}]}`, 400, "invalid", "/writes/1/expires_at"},
		{"type without a dot in a commit", "POST", commits, `{"events":[{"type":"a.b"},{"type":"ab"}]}`, 400, "invalid", "/events/1/type"},
		{"fraction for a number", "POST", events, `{"type":"a.b","schema":1.5}`, 400, "invalid", "/schema"},
		{"number out of range", "POST", events, `{"type":"a.b","schema":1e30}`, 400, "invalid", "/schema"},
		{"deep", "POST", events, `{"type":"a.b","data":` + deep + `}`, 400, "invalid", "body"},
		{"body over the limit", "POST", events, `{"type":"a.b","data":"` + strings.Repeat("x", 3<<20) + `"}`, 413, "too_large", ""},
		{"value over the limit", "POST", events, `{"type":"a.b","data":"` + strings.Repeat("x", 600<<10) + `"}`, 413, "too_large", ""},
		{"empty commit", "POST", commits, `{}`, 400, "invalid", ""},
		{"type without a dot", "POST", events, `{"type":"ab"}`, 400, "invalid", "/type"},
		{"type of a stream's last frame", "POST", events, `{"type":"complete"}`, 400, "invalid", "/type"},
		{"NUL in a type", "POST", events, `{"type":"a.\u0000"}`, 400, "invalid", ""},
		{"zero-width space in a type", "POST", events, `{"type":"ru\u200bn.started"}`, 400, "invalid", ""},
		{"bidi mark in a type", "POST", commits, `{"events":[{"type":"run.\u202estarted"}]}`, 400, "invalid", ""},
		{"10 kB type", "POST", events, `{"type":"a.` + strings.Repeat("b", 10_000) + `"}`, 413, "too_large", ""},
		{"key twice", "POST", commits, `{"writes":[{"key":"app/x","value":1},{"key":"app/x","value":2}]}`, 400, "invalid", ""},

		{"space without a kind", "GET", "/v1/spaces/shop/events", ``, 400, "invalid", ""},
		{"space with a slash", "GET", "/v1/spaces/project:a%2Fb/events", ``, 400, "invalid", ""},
		{"space with NUL", "GET", "/v1/spaces/project:a%00/events", ``, 400, "invalid", "path"},
		{"space that is not UTF-8", "GET", "/v1/spaces/project:%ff/events", ``, 400, "invalid", "path"},
		{"10 kB space", "GET", "/v1/spaces/project:" + strings.Repeat("a", 10_000) + "/events", ``, 413, "too_large", ""},
		{"dots in the path", "GET", "/v1/spaces/../spaces", ``, 400, "invalid", "path"},
		{"empty segment", "GET", "/v1//spaces", ``, 400, "invalid", "path"},
		{"bad position in a query", "GET", events + "?after=1", ``, 400, "invalid", "after"},
		{"bad limit", "GET", events + "?limit=0", ``, 400, "invalid", "limit"},
		{"bad time in a query", "GET", events + "?since=yesterday", ``, 400, "invalid", "since"},
		{"bad order", "GET", events + "?order=up", ``, 400, "invalid", "order"},

		{"claim in a pattern", "POST", "/v1/runs/claim", `{"spaces":["project:a","project:*"]}`, 400, "invalid", "/spaces/1"},
		{"claim in all spaces", "POST", "/v1/runs/claim", `{"spaces":["*"]}`, 400, "invalid", "/spaces/0"},
		{"claim in a list", "POST", "/v1/runs/claim", `{"spaces":["project:a,project:b"],"wait_seconds":60}`, 400, "invalid", "/spaces/0"},
		{"claim in no name", "POST", "/v1/runs/claim", `{"spaces":["shop"]}`, 400, "invalid", "/spaces/0"},
		{"claim in an empty name", "POST", "/v1/runs/claim", `{"spaces":[""]}`, 400, "invalid", "/spaces/0"},
		{"claim in a name of 10 kB", "POST", "/v1/runs/claim", `{"spaces":["project:` + strings.Repeat("a", 10_000) + `"]}`, 413, "too_large", ""},
		{"claim nowhere", "POST", "/v1/runs/claim", `{"spaces":[]}`, 400, "invalid", "/spaces"},
		{"watch of a pattern", "GET", "/v1/events?watch=project:a,project:*", ``, 400, "invalid", "watch"},
		{"watch of no name", "GET", "/v1/events?watch=shop", ``, 400, "invalid", "watch"},
		{"watch of nothing", "GET", "/v1/events?watch=", ``, 400, "invalid", "watch"},

		{"unknown route", "GET", "/v2/x", ``, 404, "not_found", ""},
		{"unknown space deleted", "DELETE", "/v1/spaces/project:zz", ``, 404, "not_found", ""},
		{"wrong method", "PUT", "/v1/spaces", `{}`, 405, "unsupported", ""},
		{"cursor that was never there", "GET", events + "?after=0001deadbeef-0000000000000001", ``, 410, "trimmed", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := *s
			c.t = t
			var body any
			if tt.body != "" {
				body = tt.body
			}
			var headers []string
			if strings.HasPrefix(tt.path, "/v1/events") {
				headers = []string{"Accept", "text/event-stream"}
			}
			p := c.refuse(tt.status, tt.code, tt.method, tt.path, body, headers...)
			if p.Field != tt.field {
				t.Errorf("field = %q, want %q (%s)", p.Field, tt.field, p.Detail)
			}
			if !strings.HasPrefix(p.RequestID, "sess_") {
				t.Errorf("request_id = %q", p.RequestID)
			}
			if len(p.Detail) > 500 {
				t.Errorf("detail has %d bytes", len(p.Detail))
			}
		})
	}
	s.want(200, nil, "GET", "/v1/spaces/project:%F0%9F%9A%A3/events", nil) // an emoji is valid in a name
}

func TestARefusalOfACommitNamesTheMember(t *testing.T) {
	s := serveWithTokens(t, nil).as("user:1", auth.Grant{Space: "project:*", Access: auth.Write})
	for body, want := range map[string]string{
		`{"checks":[{"key":"app/x"},{"key":"mine/x"}]}`:                  "/checks/1/key: ",
		`{"checks":[{"stream":"idem/x"}]}`:                               "/checks/0/stream: ",
		`{"writes":[{"key":"mine/x","value":1}]}`:                        "/writes/0/key: ",
		`{"events":[{"type":"a.b"},{"type":"a.b","stream":"run/mine"}]}`: "/events/1/stream: ",
	} {
		if p := s.refuse(403, "forbidden", "POST", "/v1/spaces/project:a/commits", body); !strings.Contains(p.Detail, want) {
			t.Errorf("%s: %s, want %s", body, p.Detail, want)
		}
	}
}

// Which names are valid is no secret: a caller without a grant gets the same answer.
func TestABadNameOfASpaceIsToldBeforeTheGrant(t *testing.T) {
	s := serveWithTokens(t, nil).as("user:1", auth.Grant{Space: "project:*", Access: auth.Work})
	s.refuse(400, "invalid", "POST", claimPath, `{"spaces":["project:*"]}`)
	s.refuse(400, "invalid", "GET", "/v1/events?watch=project:*", nil, "Accept", "text/event-stream")
	s.refuse(403, "forbidden", "POST", claimPath, `{"spaces":["user:1"]}`)
}

func TestAWrongMethodSaysWhichAreRight(t *testing.T) {
	s := serve(t, nil)
	r := s.do("PATCH", "/v1/spaces/project:a/events", nil)
	if got := r.header.Get("Allow"); r.status != 405 || got != "GET, POST" {
		t.Errorf("status %d, Allow %q; want 405, GET, POST", r.status, got)
	}
}

func TestHeadersOverTheLimitAreRefused(t *testing.T) {
	s := serve(t, nil)
	srv := rest.NewServer(s.api)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- srv.Serve(l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Big: "+strings.Repeat("x", 200<<10))
	answer, _ := io.ReadAll(conn)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 431 ") {
		t.Errorf("got %.60q, want 431", answer)
	}
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve = %v, want nil after Shutdown", err)
	}
}

func TestWithoutTokensOnlyThisMachineIsServed(t *testing.T) {
	s := serve(t, &rest.Options{Origins: []string{"https://app.example"}})
	get := func(host string, headers ...string) int {
		req, _ := http.NewRequest("POST", s.http.URL+"/v1/spaces/project:a/events", strings.NewReader(`{"type":"a.b"}`))
		req.Host = host
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	tests := []struct {
		host, origin string
		want         int
	}{
		{"localhost:80", "", 201},
		{"127.0.0.1", "", 201},
		{"[::1]:8080", "", 201},
		{"evil.example", "", 403}, // a name that somebody made resolve to here
		{"localhost", "https://evil.example", 403},
		{"localhost", "https://app.example", 201},
		{"localhost", "http://localhost", 201},
	}
	for _, tt := range tests {
		var h []string
		if tt.origin != "" {
			h = []string{"Origin", tt.origin}
		}
		if got := get(tt.host, h...); got != tt.want {
			t.Errorf("Host %s, Origin %s: %d, want %d", tt.host, tt.origin, got, tt.want)
		}
	}
	r := s.do("OPTIONS", "/v1/spaces", nil, "Origin", "https://app.example", "Access-Control-Request-Method", "POST")
	if r.status != 204 || r.header.Get("Access-Control-Allow-Origin") != "https://app.example" {
		t.Errorf("preflight: %d %v", r.status, r.header)
	}
	if r := s.do("GET", "/v1/spaces", nil, "Origin", "https://other.example"); r.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("an origin that was not named is allowed to read")
	}
}

func TestTheRateOfACallerIsBounded(t *testing.T) {
	s := serve(t, &rest.Options{Rate: 3})
	limited := 0
	for range 20 {
		if r := s.do("GET", "/v1/spaces", nil); r.status == 429 {
			limited++
			if p := r.problem(t); p.Code != "rate_limited" || r.header.Get("Retry-After") == "" {
				t.Errorf("429 is %+v, Retry-After %q", p, r.header.Get("Retry-After"))
			}
		}
	}
	if limited == 0 {
		t.Error("20 requests at once passed a rate of 3 a second")
	}
}

// held blocks every commit until it is released.
type held struct {
	journal.Backend
	came, letGo chan struct{}
}

func (h *held) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	select {
	case h.came <- struct{}{}:
	default:
	}
	<-h.letGo
	return h.Backend.Commit(ctx, batch)
}

// A client that closed its half of the connection counts as disconnected, but still
// reads: it must not be told of a success that nobody knows of.
func TestAClientThatHalfClosedIsNotToldOfASuccess(t *testing.T) {
	b := &held{memstore.New(), make(chan struct{}, 1), make(chan struct{})}
	store, err := thole.Open(t.Context(), b, &thole.Options{Concepts: rest.Concepts()})
	if err != nil {
		t.Fatal(err)
	}
	s := serveStore(t, store, nil)
	const body = `{"type":"a.b","data":1}`
	send := func() *net.TCPConn {
		conn, err := net.Dial("tcp", s.http.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "POST /v1/spaces/project:a/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		return conn.(*net.TCPConn)
	}
	first := send()
	<-b.came
	second := send() // waits for the first
	if err := second.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(second); len(got) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("answer to the client that closed its half: got %q, %v; want none", got, err)
	}
	close(b.letGo)
	if got, err := io.ReadAll(first); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 201 ") {
		t.Errorf("answer to the other client: got %q, %v; want 201", got, err)
	}
}

package main_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/thole-dev/thole/internal/servertest"
)

// badRequest is a request that must be refused.
type badRequest struct {
	name, method, path, body string
	status                   int
	code                     string
	header                   []string // names and values in turn
}

// badBodies are sent to an operation that would create a thread.
func badBodies() (all []badRequest) {
	for name, c := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"wrong type":            {`{"title":5}`, 400, "invalid"},
		"wrong nested type":     {`{"metadata":[]}`, 400, "invalid"},
		"unknown field":         {`{"titel":"x"}`, 400, "invalid"},
		"field in another case": {`{"Title":"x"}`, 400, "invalid"},
		"list":                  {`[]`, 400, "invalid"},
		"null":                  {`null`, 400, "invalid"},
		"string":                {`"x"`, 400, "invalid"},
		"two values":            {`{} {}`, 400, "invalid"},
		"cut off":               {`{"title":"a"`, 400, "invalid"},
		"XML":                   {`<a/>`, 400, "invalid"},
		"not UTF-8":             {"{\"title\":\"\xff\xfe\"}", 400, "invalid"},
		"number out of range":   {`{"ttl":1e400}`, 400, "invalid"},
		"huge whole number":     {`{"ttl":99999999999999999999}`, 400, "invalid"},
		"negative":              {`{"ttl":-5}`, 400, "invalid"},
		"fraction":              {`{"ttl":1.5}`, 400, "invalid"},
		"no such choice":        {`{"visibility":"nobody"}`, 400, "invalid"},
		"10,000 levels deep":    {`{"metadata":{"a":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}}`, 400, "invalid"},
		"10,000 levels, no end": {`{"metadata":` + strings.Repeat(`{"a":`, 10_000), 400, "invalid"},
		"over the body's limit": {`{"title":"` + strings.Repeat("x", 6<<20) + `"}`, 413, "too_large"},
		"over a value's limit":  {`{"title":"` + strings.Repeat("x", 600<<10) + `"}`, 413, "too_large"},
		"spaces over the limit": {strings.Repeat(" ", 6<<20), 413, "too_large"},
	} {
		all = append(all, badRequest{name: name, method: "POST", path: "/threads", body: c.body, status: c.status, code: c.code})
	}
	return all
}

// badNames are in paths; {thread} stands for an existing thread.
func badNames() (all []badRequest) {
	get := func(name, path string, status int, code string) {
		all = append(all, badRequest{name: name, method: "GET", path: path, status: status, code: code})
	}
	put := func(name, path string, status int, code string) {
		all = append(all, badRequest{name: name, method: "PUT", path: path, body: `{"data":1}`, status: status, code: code})
	}
	long := strings.Repeat("a", 10<<10)
	put("dots", "/kv/ns/..", 400, "invalid")
	put("dots in the middle", "/kv/ns/a/../../b", 400, "invalid")
	put("empty segment", "/kv/ns/a//b", 400, "invalid")
	put("NUL", "/kv/ns/a%00b", 400, "invalid")
	put("line feed", "/kv/ns/a%0Ab", 400, "invalid")
	put("not UTF-8", "/kv/ns/%ff%fe", 400, "invalid")
	put("10 kB", "/kv/ns/"+long, 413, "too_large")
	put("10 kB namespace", "/kv/"+long+"/k", 413, "too_large")
	get("10 kB document", "/documents/"+long, 413, "too_large")
	get("malformed id", "/threads/nope", 400, "invalid")
	get("id of another kind", "/threads/run_00000000000000000000000000000000", 400, "invalid")
	get("id of nothing", "/threads/thrd_00000000000000000000000000000000", 404, "not_found")
	get("malformed run id", "/threads/{thread}/runs/nope", 400, "invalid")
	get("run that is not there", "/threads/{thread}/runs/run_00000000000000000000000000000000", 404, "not_found")
	get("limit of none", "/threads?limit=0", 400, "invalid")
	get("negative limit", "/threads?limit=-1", 400, "invalid")
	get("limit in words", "/threads?limit=many", 400, "invalid")
	get("huge limit", "/threads?limit=99999999999999999999", 400, "invalid")
	get("cursor of a list", "/threads?cursor=x", 400, "invalid")
	get("cursor of messages", "/threads/{thread}/messages?cursor=x", 400, "invalid")
	get("position", "/threads/{thread}/messages?at=x", 400, "invalid")
	get("position of another epoch", "/threads/{thread}/messages?at=0001ffffffff-0000000000000001", 410, "trimmed")
	get("cursor beyond the head", "/events?after={epoch}-0000000000009999", 410, "trimmed")
	get("time", "/events?since=yesterday", 400, "invalid")
	get("order", "/events?order=sideways", 400, "invalid")
	for i := range all {
		if strings.HasPrefix(all[i].name, "cursor beyond") { // on the event stream too
			watch := all[i]
			watch.name, watch.header = "watch beyond the head", []string{"Accept", "text/event-stream"}
			all = append(all, watch)
		}
	}
	return all
}

// badUse is what is wrong apart from bodies and names.
func badUse() []badRequest {
	const text = `{"role":"user","blocks":[{"type":"text","content":"x"}]}`
	post := func(name, path, body string, status int, code string, header ...string) badRequest {
		return badRequest{name, "POST", path, body, status, code, header}
	}
	return []badRequest{
		post("empty body", "/threads/{thread}/messages", "", 400, "invalid"),
		post("no blocks", "/threads/{thread}/messages", `{"role":"user"}`, 400, "invalid"),
		post("role", "/threads/{thread}/messages", `{"role":"alien","blocks":[]}`, 400, "invalid"),
		post("block type", "/threads/{thread}/messages", `{"role":"user","blocks":[{"type":"x","content":"x"}]}`, 400, "invalid"),
		post("block id", "/threads/{thread}/messages", `{"role":"user","blocks":[{"id":"../x","type":"text"}]}`, 400, "invalid"),
		post("malformed If-Match", "/threads/{thread}/messages", text, 400, "invalid", "If-Match", "x"),
		post("If-Match of the past", "/threads/{thread}/messages", text, 412, "conflict", "If-Match", `"{epoch}-0000000000009999"`),
		post("both conditions", "/threads/{thread}/messages", text, 400, "invalid", "If-Match", "*", "If-None-Match", "*"),
		post("malformed fence", "/threads/{thread}/messages", text, 400, "invalid", "Thole-Fence", "x"),
		post("actor", "/threads", "{}", 400, "invalid", "Thole-Actor", strings.Repeat("x", 300)),
		post("idempotency key", "/threads", "{}", 400, "invalid", "Idempotency-Key", strings.Repeat("x", 300)),
		post("compressed body", "/threads", "{}", 415, "invalid", "Content-Encoding", "gzip"),
		post("foreign origin", "/threads", "{}", 403, "forbidden", "Origin", "http://evil.example"),
		post("policy", "/threads/{thread}/runs", `{"prompt":"x","policy":"maybe"}`, 400, "invalid"),
		post("timeout", "/threads/{thread}/runs", `{"prompt":"x","timeout":1e300}`, 400, "invalid"),
		post("parent that is not there", "/threads/{thread}/runs", `{"prompt":"x","parent":"run_00000000000000000000000000000000"}`, 404, "not_found"),
		post("finish without a token", "/threads/{thread}/runs/run_00000000000000000000000000000000/finish", `{"status":"succeeded"}`, 400, "invalid"),
		post("cancel of nothing", "/threads/{thread}/runs/run_00000000000000000000000000000000/cancel", `{}`, 404, "not_found"),
		post("lock without a name", "/locks", `{}`, 400, "invalid"),
		post("lock mode", "/locks", `{"name":"a","mode":"maybe"}`, 400, "invalid"),
		post("second of two writes", "/commits", `{"writes":[{"key":"app/a","value":1},{"key":"app/a","value":2}]}`, 400, "invalid"),
		post("last of many writes", "/commits", `{"writes":[{"key":"app/a","value":1},{"key":"app/b\u0000","value":2}]}`, 400, "invalid"),
		post("check that fails", "/commits", `{"checks":[{"key":"app/a","at":"{epoch}-0000000000000001"}],"writes":[{"key":"app/a","value":1}]}`, 409, "conflict"),
		{"patch in the middle", "PATCH", "/documents/d", `[{"op":"add","path":"/a","value":1},{"op":"replace","path":"/nope","value":1}]`, 400, "invalid", nil},
		{"patch that is no list", "PATCH", "/documents/d", `{"a":1}`, 400, "invalid", []string{"Content-Type", "application/json-patch+json"}},
		{"patch of another kind", "PATCH", "/documents/d", `{"a":1}`, 415, "invalid", []string{"Content-Type", "application/xml"}},
		{"no such method", "BREW", "/threads", "", 405, "unsupported", nil},
		{"no such place", "GET", "/coffee", "", 404, "not_found", nil},
	}
}

// A real server gets requests that are wrong in every way. Each answer is a problem
// with a stable code, and afterwards the space is unchanged, to the last position.
func TestBadInputIsRefusedAndChangesNothing(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{})
	const space = "/v1/spaces/project:hostile"
	var thread struct{ ID, Version string }
	s.Must("POST", space+"/threads", map[string]any{}, &thread)
	s.Must("PUT", space+"/documents/d", map[string]any{"value": map[string]any{}}, nil)
	epoch, _ := servertest.Seq(t, thread.Version)
	fill := strings.NewReplacer("{thread}", thread.ID, "{epoch}", epoch)
	before := s.Must("GET", "/v1/spaces", nil, nil).Body

	cases := append(append(badBodies(), badNames()...), badUse()...)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, s.URL+space+fill.Replace(c.path), strings.NewReader(fill.Replace(c.body)))
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(c.header); i += 2 {
				req.Header.Set(c.header[i], fill.Replace(c.header[i+1]))
			}
			r := servertest.Send(t, s.HTTP, req)
			mustBeProblem(t, r, c.status, c.code)
			after := s.Must("GET", "/v1/spaces", nil, nil).Body
			if string(after) != string(before) {
				t.Errorf("positions: got %s, want %s as before", after, before)
			}
		})
	}
	s.Terminate()
	servertest.MustBeHealthy(t, s.Store)
}

// mustBeProblem checks that an answer is a problem (RFC 9457) that tells the user
// enough, but not everything.
func mustBeProblem(t *testing.T, r servertest.Reply, status int, code string) {
	t.Helper()
	var p struct {
		Status                                int
		Type, Title, Detail, Code, Request_id string
	}
	if err := json.Unmarshal(r.Body, &p); err != nil {
		t.Fatalf("status %d: %v in %.300s", r.Status, err, r.Body)
	}
	if r.Status != status || p.Status != status || p.Code != code {
		t.Errorf("got %d %s, want %d %s: %.500s", r.Status, p.Code, status, code, r.Body)
	}
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type: got %q", got)
	}
	if p.Detail == "" || len(p.Detail) > 500 || p.Type == "" || p.Title == "" || p.Request_id == "" {
		t.Errorf("problem: got %.700s", r.Body)
	}
	for _, internal := range []string{"goroutine", "unmarshal", "interface {}", "struct {", ".go:"} {
		if strings.Contains(p.Detail, internal) {
			t.Errorf("the detail contains %q, which means nothing to a user: %s", internal, p.Detail)
		}
	}
}

// Odd but valid names survive the way in and out.
func TestNamesMayContainWhatPeopleWrite(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{})
	for _, name := range []string{"🚣", "..", "../../etc/passwd", "a b", "a/b", "%", "?x#y", `"`, "CON", "é", "a%2Fb", strings.Repeat("ü", 40)} {
		path := "/v1/spaces/project:names/kv/ns/" + strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
		s.Must("PUT", path, map[string]any{"data": name}, nil)
		var got struct {
			Key, Data string
			Exists    bool
		}
		s.Must("GET", path, nil, &got)
		if got.Key != name || got.Data != name || !got.Exists {
			t.Errorf("%q: got %+v", name, got)
		}
	}
	s.Terminate()
	servertest.MustBeHealthy(t, s.Store)
}

// No HTTP client would send these bytes.
func TestABrokenConnectionChangesNothing(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{})
	s.Must("POST", "/v1/spaces/project:hostile/threads", map[string]any{}, nil)
	before := s.Must("GET", "/v1/spaces", nil, nil).Body
	const head = "POST /v1/spaces/project:hostile/threads HTTP/1.1\r\nHost: localhost\r\n"
	for name, raw := range map[string]string{
		"garbage":             "\x00\x01\x02\xff\r\n\r\n",
		"TLS":                 "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"half a body":         head + "Content-Length: 20\r\n\r\n{\"title\":",
		"half a chunk":        head + "Transfer-Encoding: chunked\r\n\r\nff\r\n{\"title\":\"x\"}",
		"bad chunk":           head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
		"two lengths":         head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
		"length and chunks":   head + "Content-Length: 2\r\nTransfer-Encoding: chunked, identity\r\n\r\n{}",
		"no host":             "POST /v1/spaces/project:hostile/threads HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
		"NUL in a header":     head + "X-A: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
		"100 kB of headers":   head + "X-A: " + strings.Repeat("x", 100<<10) + "\r\nContent-Length: 2\r\n\r\n{}",
		"another host":        "POST /v1/spaces/project:hostile/threads HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\n{}",
		"absolute path, dots": "POST /../v1/spaces/project:hostile/threads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
	} {
		t.Run(name, func(t *testing.T) {
			conn := s.Dial(t)
			if _, err := io.WriteString(conn, raw); err != nil {
				t.Logf("the server hung up while we spoke: %v", err)
			}
			conn.(*net.TCPConn).CloseWrite()
			if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				resp.Body.Close()
				if resp.StatusCode < 400 {
					t.Errorf("status: got %d, want a refusal", resp.StatusCode)
				}
			}
			if after := s.Must("GET", "/v1/spaces", nil, nil).Body; string(after) != string(before) {
				t.Errorf("positions: got %s, want %s as before", after, before)
			}
		})
	}
}

package rest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/internal/effort"
)

type eventPage struct {
	Items []struct {
		Position thole.Position  `json:"position"`
		Type     string          `json:"type"`
		Actor    string          `json:"actor"`
		Cause    string          `json:"cause"`
		Data     json.RawMessage `json:"data"`
	} `json:"items"`
	NextCursor *string `json:"next_cursor"`
}

func TestTheJournalIsReadPageByPage(t *testing.T) {
	s := serve(t, nil)
	var want []string
	for i := range 7 {
		want = append(want, s.addEvent("project:a", "app.n", i).String())
	}
	for _, order := range []string{"asc", "desc"} {
		var got []string
		for cursor := ""; ; {
			var p eventPage
			s.want(200, &p, "GET", "/v1/spaces/project:a/events?limit=3&order="+order+after(cursor), nil)
			for _, e := range p.Items {
				got = append(got, e.Position.String())
			}
			if cursor = *p.NextCursor; cursor == "" {
				break
			}
		}
		if order == "desc" {
			slices.Reverse(got)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", order, got, want)
		}
	}
	var p eventPage
	s.want(200, &p, "GET", "/v1/spaces/project:empty/events", nil)
	if p.Items == nil || len(p.Items) != 0 || p.NextCursor == nil {
		t.Errorf("an empty space gives %+v, want items [] and next_cursor", p)
	}
}

func TestARepeatWithTheSameIdempotencyKeyHappensOnce(t *testing.T) {
	s := serve(t, nil)
	const path = "/v1/spaces/project:a/events"
	body := map[string]any{"type": "app.n", "data": 1}
	first := s.want(201, nil, "POST", path, body, "Idempotency-Key", "k1")
	again := s.want(201, nil, "POST", path, body, "Idempotency-Key", "k1")
	if string(first.body) != string(again.body) || first.header.Get("ETag") != again.header.Get("ETag") {
		t.Errorf("first %s, again %s", first.body, again.body)
	}
	s.refuse(422, "invalid", "POST", path, map[string]any{"type": "app.n", "data": 2}, "Idempotency-Key", "k1")
	other := s.want(201, nil, "POST", path, body, "Idempotency-Key", "k1", "Thole-Actor", "user:2")
	if string(other.body) == string(first.body) {
		t.Error("another actor's key is taken for the first one's")
	}
	var p eventPage
	s.want(200, &p, "GET", path, nil)
	if len(p.Items) != 2 {
		t.Errorf("%d events, want 2", len(p.Items))
	}
	s.refuse(400, "invalid", "POST", path, body, "Idempotency-Key", strings.Repeat("k", 300))
}

func TestConcurrentCommitsOnOneVersionHaveOneWinner(t *testing.T) {
	s := serve(t, nil)
	const path = "/v1/spaces/project:a/commits"
	var base committed
	s.want(201, &base, "POST", path, `{"writes":[{"key":"app/x","value":0}]}`)
	var wg sync.WaitGroup
	var mu sync.Mutex
	status := map[int]int{}
	for i := range 16 {
		wg.Go(func() {
			r := s.do("POST", path, fmt.Sprintf(`{"checks":[{"key":"app/x","at":%q}],"writes":[{"key":"app/x","value":%d}]}`, base.Position, i))
			mu.Lock()
			defer mu.Unlock()
			status[r.status]++
			if r.status == 409 {
				if p := r.problem(t); p.Code != "conflict" || p.Current.IsZero() || p.Current == base.Position {
					t.Errorf("conflict %+v does not say the current version", p)
				}
			}
		})
	}
	wg.Wait()
	if status[201] != 1 || status[409] != 15 {
		t.Errorf("got %v, want one 201 and 15 409", status)
	}
}

func TestOnlyAdminsCommitOutsideTheApplicationsGround(t *testing.T) {
	s := serveWithTokens(t, nil)
	writer := s.as("user:1", auth.Grant{Space: "project:*", Access: auth.Write})
	admin := s.as("user:2", auth.Grant{Space: "project:*", Access: auth.Admin})
	const path = "/v1/spaces/project:a/"
	for name, body := range map[string]string{
		"events":      `{"type":"app.x","stream":"thread/x"}`,
		"commits":     `{"events":[{"type":"message.added"}]}`,
		"commits ":    `{"writes":[{"key":"thread/x","value":1}]}`,
		"commits  ":   `{"writes":[{"key":"thread-gone/x","value":{}}]}`,
		"commits   ":  `{"writes":[{"key":"run/x/thread-gone","value":{}}]}`,
		"commits    ": `{"writes":[{"key":"run/x/cancelling","value":{}}]}`,
		"commits2":    `{"checks":[{"key":"lock/x"}],"writes":[{"key":"app/x","value":1}]}`,
	} {
		p := path + strings.Trim(name, " 2")
		writer.refuse(403, "forbidden", "POST", p, body)
		admin.want(201, nil, "POST", p, body)
	}
	writer.want(201, nil, "POST", path+"commits", `{"writes":[{"key":"app/x","value":1}],"events":[{"type":"app.x"}]}`)
	writer.refuse(403, "forbidden", "DELETE", "/v1/spaces/project:a", nil)
	writer.refuse(403, "forbidden", "POST", "/v1/spaces/user:a/events", `{"type":"app.x"}`)
	admin.want(204, nil, "DELETE", "/v1/spaces/project:a", nil)
	if p := admin.refuse(404, "not_found", "DELETE", "/v1/spaces/project:a", nil); strings.Count(p.Detail, "purge project:a") != 1 {
		t.Errorf("the detail of the problem is %q, want that it says once what was done", p.Detail)
	}
	s.as("user:3", auth.Grant{Space: "*", Access: auth.Admin}).refuse(403, "forbidden", "DELETE", "/v1/spaces/global", nil)
	if p := s.refuse(401, "unauthorized", "GET", "/v1/spaces", nil); !strings.Contains(p.Detail, "Authorization: Bearer") || !strings.Contains(p.Detail, "thole token create") {
		t.Errorf("a request without a token is told %q", p.Detail)
	}
	s.refuse(401, "unauthorized", "GET", "/metrics", nil)
	if p := s.refuse(401, "unauthorized", "GET", "/v1/spaces", nil, "Authorization", "Bearer x"); !strings.Contains(p.Detail, "the token is unknown, was revoked or has expired") {
		t.Errorf("a request with an unknown token is told %q", p.Detail)
	}
	if r := s.do("GET", "/v1/spaces", nil); r.header.Get("WWW-Authenticate") == "" {
		t.Error("401 without WWW-Authenticate")
	}
	writer.want(200, nil, "GET", "/metrics", nil)
}

func TestSpacesAreListedAsFarAsTheGrantsGo(t *testing.T) {
	s := serveWithTokens(t, nil)
	all := s.as("admin", auth.Grant{Space: "*", Access: auth.Admin})
	for i := range 5 {
		all.addEvent(fmt.Sprintf("project:p%d", i), "app.n", i)
		all.addEvent(fmt.Sprintf("user:u%d", i), "app.n", i)
	}
	reader := s.as("user:1", auth.Grant{Space: "project:*", Access: auth.Read})
	var names []string
	for cursor := ""; ; {
		var p struct {
			Items []struct {
				Name string         `json:"name"`
				Last thole.Position `json:"last"`
			} `json:"items"`
			Next string `json:"next_cursor"`
		}
		reader.want(200, &p, "GET", "/v1/spaces?limit=2"+after(cursor), nil)
		for _, sp := range p.Items {
			if sp.Last.IsZero() {
				t.Errorf("%s has no last position", sp.Name)
			}
			names = append(names, sp.Name)
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if got := strings.Join(names, " "); got != "project:p0 project:p1 project:p2 project:p3 project:p4" {
		t.Errorf("got %s", got)
	}
}

func TestEventsSayWhoAndWhichRequest(t *testing.T) {
	s := serve(t, nil)
	trace := "4bf92f3577b34da6a3ce929d0e0e4736"
	r := s.want(201, nil, "POST", "/v1/spaces/project:a/events", `{"type":"app.n"}`,
		"X-Request-Id", "abc-1", "Traceparent", "00-"+trace+"-00f067aa0ba902b7-01", "Thole-Actor", "agent:coder")
	id := r.header.Get("X-Request-Id")
	var p eventPage
	s.want(200, &p, "GET", "/v1/spaces/project:a/events", nil)
	if e := p.Items[0]; e.Actor != "agent:coder" || e.Cause != id+" request=abc-1 trace="+trace || thole.CheckID("sess", id) != nil {
		t.Errorf("actor %q, cause %q, X-Request-Id %q", e.Actor, e.Cause, id)
	}
	s.refuse(400, "invalid", "GET", "/v1/spaces", nil, "Thole-Actor", strings.Repeat("a", 300))
}

func TestTheOpenAPIDocumentIsValidAndHasEveryRoute(t *testing.T) {
	effort.SlowUnderRace(t)
	s := serve(t, nil)
	r := s.want(200, nil, "GET", "/openapi.json", nil)
	doc, err := openapi3.NewLoader().LoadFromData(r.body)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Errorf("the document is not valid: %v", err)
	}
	ids := map[string]string{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.Summary == "" || len(op.Tags) == 0 || op.Responses.Default() == nil {
				t.Errorf("%s %s is not described", method, path)
			}
			if other := ids[op.OperationID]; other != "" {
				t.Errorf("%s %s and %s have one operationId", method, path, other)
			}
			ids[op.OperationID] = method + " " + path
			for _, p := range op.Parameters {
				if of := p.Value.Schema; of.Ref != "" || of.Value.Type.Is("object") {
					t.Errorf("%s: the parameter %s, which is text, is described as an object", op.OperationID, p.Value.Name)
				}
			}
			if r := s.do(method, strings.NewReplacer("{", "", "}", "").Replace(path), "x"); r.status == 404 && strings.Contains(string(r.body), "see /docs") || r.status == 405 {
				t.Errorf("%s %s is documented and not served: %d %s", method, path, r.status, r.body)
			}
		}
	}
}

func TestTheDocsPageLoadsNothingFromElsewhere(t *testing.T) {
	s := serve(t, nil)
	for _, path := range []string{"/docs", "/docs/docs.js", "/docs/docs.css"} {
		r := s.want(200, nil, "GET", path, nil)
		if csp := r.header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
			t.Errorf("%s: Content-Security-Policy %q", path, csp)
		}
		if strings.Contains(string(r.body), "://") || strings.Contains(string(r.body), "innerHTML") {
			t.Errorf("%s refers to another place, or writes markup", path)
		}
	}
	s.refuse(404, "not_found", "GET", "/docs/x", nil)
	s.refuse(404, "not_found", "GET", "/docs/..%2Fapi.go", nil)
}

func TestMetricsCountRequestsByRoute(t *testing.T) {
	s := serve(t, nil)
	s.addEvent("project:secret", "app.n", 1)
	r := s.want(200, nil, "GET", "/metrics", nil)
	text := string(r.body)
	if !strings.Contains(text, `thole_http_requests_total{route="POST /v1/spaces/{space}/events",status="201"} 1`) {
		t.Errorf("metrics lack the request:\n%s", text)
	}
	if strings.Contains(text, "secret") {
		t.Error("metrics name a space")
	}
}

// Every operation is called with a parameter that no operation has, and with each of
// its own.
func TestAParameterIsKnownOrRefused(t *testing.T) {
	s := serve(t, nil)
	thread := s.createThread("project:a", nil)
	s.want(201, nil, "POST", "/v1/spaces/project:a/threads/"+thread+"/runs", `{"prompt":"x"}`)
	doc, err := openapi3.NewLoader().LoadFromData(s.want(200, nil, "GET", "/openapi.json", nil).body)
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			path := strings.NewReplacer("{space}", "project:a", "{thread}", thread).Replace(path)
			for _, p := range op.Parameters {
				if of := p.Value.Schema.Value; p.Value.In == "path" && len(of.Examples) > 0 {
					path = strings.ReplaceAll(path, "{"+p.Value.Name+"}", fmt.Sprint(of.Examples[0]))
				}
			}
			if p := s.refuse(400, "invalid", method, path+"?limti=5", nil); p.Field != "limti" {
				t.Errorf("%s %s: field = %q, want limti (%s)", method, path, p.Field, p.Detail)
			}
			if method != "GET" {
				continue
			}
			queries := []string{""}
			for _, p := range op.Parameters {
				if p.Value.In == "query" {
					queries = append(queries, "?"+p.Value.Name+"=")
				}
			}
			for _, q := range queries {
				if r := s.do(method, path+q, nil); q == "" && strings.Contains(path, "/backend/") || strings.HasPrefix(path, "/v1/events") {
					continue // the requests lack what these operations need
				} else if r.status >= 500 || (q != "" && q != "?after=") != (r.status == 400) {
					t.Errorf("%s %s%s: %d %s", method, path, q, r.status, r.body)
				}
				if q != "" {
					for _, value := range []string{"1", "true", "x"} {
						s.refuse(400, "invalid", method, path+q+value+"&"+q[1:]+value, nil)
					}
				}
			}
		}
	}
	s.refuse(400, "invalid", "GET", "/v1/spaces?limit=1;cursor=%zz", nil)
}

// An operation's declaration says whether it needs a token, and the operation does what
// it says.
func TestTheDocumentSaysWhereATokenIsNeeded(t *testing.T) {
	s := serve(t, nil)
	id := s.createThread("project:a", nil)
	const zero = "00000000000000000000000000000000"
	fill := strings.NewReplacer("{space}", "project:a", "{thread}", id, "{run}", "run_"+zero, "{turn}", "turn_"+zero,
		"{block}", "blk_"+zero, "{name}", "l")
	bodies := map[string]string{"wait": `{"name":"x"}`, "finish": `{"status":"failed"}`, "blocks": `{"type":"tool","tool":{"name":"x"}}`, "{block}": `{"text":"x"}`}
	doc, err := openapi3.NewLoader().LoadFromData(s.want(200, nil, "GET", "/openapi.json", nil).body)
	if err != nil {
		t.Fatal(err)
	}
	needed := 0
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if p := op.Parameters.GetByInAndName("header", "Thole-Fence"); p == nil || !p.Required {
				continue
			}
			needed++
			var body any
			if b := bodies[path[strings.LastIndex(path, "/")+1:]]; b != "" {
				body = b
				var v any
				if err := json.Unmarshal([]byte(b), &v); err != nil {
					t.Fatal(err)
				}
				if err := op.RequestBody.Value.Content.Get("application/json").Schema.Value.VisitJSON(v); err != nil {
					t.Errorf("%s %s: %s does not fit its schema: %v", method, path, b, err)
				}
			}
			if p := s.refuse(400, "invalid", method, fill.Replace(path), body); p.Field != "Thole-Fence" {
				t.Errorf("%s %s without a token: %+v", method, path, p)
			}
		}
	}
	if needed != 7 { // everything else that asks for a token panics: see [call.fence]
		t.Errorf("%d operations need a token, want 7", needed)
	}
}

func TestASpaceThatCannotBeIsNotReadAsEmpty(t *testing.T) {
	s := serve(t, nil)
	for _, space := range []string{"project:*", "project:a,b"} {
		for _, path := range []string{"/threads", "/events", "/decisions", "/locks", "/documents", "/documents/d", "/kv/n", "/kv/n/k", "/files"} {
			s.refuse(400, "invalid", "GET", "/v1/spaces/"+space+path, nil)
		}
		s.refuse(400, "invalid", "GET", "/v1/spaces/"+space+"/events", nil, "Accept", "text/event-stream")
	}
}

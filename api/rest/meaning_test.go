package rest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// What a request says is done or refused, never ignored. Each row was once ignored or
// misunderstood.
func TestWhatCannotBeDoneIsRefused(t *testing.T) {
	s := serve(t, nil)
	thread := at + "/threads/" + s.createThread("project:a", nil)
	s.want(200, nil, "PUT", at+"/documents/d", `{"value":{"n":1,"l":[]}}`)
	tag := s.want(200, nil, "PUT", at+"/kv/n/k", `{"data":1}`).header.Get("ETag")
	bare := strings.Trim(tag, `"`)
	const sse = "text/event-stream"
	for _, tt := range []struct {
		name, method, path, body string
		field                    string
		headers                  []string
	}{
		{"value of an increment", "PATCH", at + "/documents/d", `{"ops":[{"op":"increment","path":"/n","value":5}]}`, "", nil},
		{"by of an append", "PATCH", at + "/documents/d", `{"ops":[{"op":"append","path":"/l","by":5}]}`, "", nil},
		{"a member beside ops", "PATCH", at + "/documents/d", `{"ops":[{"op":"increment","path":"/n"}],"n":1}`, "/n", nil},
		{"ops that are null", "PATCH", at + "/documents/d", `{"ops":null}`, "/ops", nil},
		{"no ops", "PATCH", at + "/documents/d", `{"ops":[]}`, "/ops", nil},
		{"a by that is null", "PATCH", thread + "/state", `{"ops":[{"op":"increment","path":"/n","by":null}]}`, "/ops/0/by", nil},

		{"an empty If-Match", "PUT", at + "/kv/n/k", `{"data":2}`, "If-Match", []string{"If-Match", ""}},
		{"an If-Match without quotes", "PUT", at + "/kv/n/k", `{"data":2}`, "If-Match", []string{"If-Match", bare}},
		{"an If-Match with half its quotes", "PUT", at + "/kv/n/k", `{"data":2}`, "If-Match", []string{"If-Match", bare + `"`}},
		{"an If-Match that is no version", "PUT", at + "/kv/n/k", `{"data":2}`, "If-Match", []string{"If-Match", `""`}},
		{"If-Match twice", "PUT", at + "/kv/n/k", `{"data":2}`, "If-Match", []string{"If-Match", tag, "If-Match", tag}},
		{"both preconditions", "PUT", at + "/kv/n/k", `{"data":2}`, "If-Match", []string{"If-Match", tag, "If-None-Match", "*"}},
		{"an If-None-Match of a version on a write", "PUT", at + "/kv/n/k", `{"data":2}`, "If-None-Match", []string{"If-None-Match", tag}},
		{"an empty If-None-Match", "GET", at + "/kv/n/k", "", "If-None-Match", []string{"If-None-Match", ""}},
		{"an If-None-Match without quotes", "GET", at + "/kv/n/k", "", "If-None-Match", []string{"If-None-Match", bare}},
		{"an If-None-Match where nothing has a version", "GET", at + "/kv/n", "", "If-None-Match", []string{"If-None-Match", tag}},
		{"an empty Idempotency-Key", "PUT", at + "/kv/n/k", `{"data":2}`, "Idempotency-Key", []string{"Idempotency-Key", ""}},
		{"two Idempotency-Keys", "PUT", at + "/kv/n/k", `{"data":2}`, "Idempotency-Key", []string{"Idempotency-Key", "a", "Idempotency-Key", "b"}},
		{"a Last-Event-ID of a page", "GET", at + "/events", "", "Last-Event-ID", []string{"Last-Event-ID", bare}},
		{"a Last-Event-ID that is no position", "GET", at + "/events", "", "Last-Event-ID", []string{"Accept", sse, "Last-Event-ID", "x"}},
		{"a Last-Event-ID that is no cursor over several spaces", "GET", "/v1/events?watch=project:a", "", "Last-Event-ID", []string{"Accept", sse, "Last-Event-ID", "x"}},
		{"an after that is no cursor over several spaces", "GET", "/v1/events?watch=project:a&after=x", "", "after", []string{"Accept", sse}},

		{"actor of a stream", "GET", at + "/events?actor=user:1", "", "actor", []string{"Accept", sse}},
		{"since of a stream", "GET", at + "/events?since=2026-01-01T00:00:00Z", "", "since", []string{"Accept", sse}},
		{"until of a stream", "GET", at + "/events?until=2026-01-01T00:00:00Z", "", "until", []string{"Accept", sse}},
		{"before of a stream", "GET", at + "/events?before=" + bare, "", "before", []string{"Accept", sse}},
		{"order of a stream", "GET", thread + "/events?order=desc", "", "order", []string{"Accept", sse}},
		{"limit of a stream", "GET", thread + "/events?limit=5", "", "limit", []string{"Accept", sse}},
		{"cursor of a stream", "GET", at + "/events?cursor=" + bare, "", "cursor", []string{"Accept", sse}},
		{"channel of a page", "GET", at + "/events?channel=sync", "", "channel", nil},
		{"channel of a thread's page", "GET", thread + "/events?channel=sync", "", "channel", nil},

		{"a timeout that would round to none", "POST", thread + "/runs", `{"prompt":"x","timeout":1e-10}`, "/timeout", nil},
		{"a wait for a lock that would round to none", "POST", at + "/locks", `{"name":"l","wait":0.0001}`, "/wait", nil},
		{"a ttl of a lock that would round to none", "POST", at + "/locks", `{"name":"l","ttl":1e-10}`, "/ttl", nil},
		{"a wait for a run that would round to none", "POST", "/v1/runs/claim", `{"spaces":["project:a"],"wait_seconds":1e-10}`, "/wait_seconds", nil},

		{"more types than may be", "GET", at + "/events?types=a.b" + strings.Repeat(",a.b", 64), "", "types", nil},
		{"more types of a stream than may be", "GET", at + "/events?types=a.b" + strings.Repeat(",a.b", 64), "", "types", []string{"Accept", sse}},
		{"more streams than may be", "GET", at + "/events?stream=app/x" + strings.Repeat(",app/x", 64), "", "stream", nil},
		{"more spaces than may be", "GET", "/v1/events?watch=project:a" + strings.Repeat(",project:a", 32), "", "watch", []string{"Accept", sse}},

		{"a body of a GET", "GET", at + "/kv/n/k", `{"data":2}`, "body", nil},
		{"a body of a DELETE", "DELETE", at + "/kv/n/k", `{}`, "body", nil},
		{"a body of a DELETE of a queued run", "DELETE", thread + "/queue/run_" + strings.Repeat("0", 32), `{"cause":"user"}`, "body", nil},

		{"a lock for no time", "POST", at + "/locks", `{"name":"l","ttl":0}`, "/ttl", nil},
		{"a lock for less than a millisecond", "POST", at + "/locks", `{"name":"l","ttl":0.0001}`, "/ttl", nil},
		{"a wait that is negative", "POST", "/v1/runs/claim", `{"spaces":["project:a"],"wait_seconds":-1}`, "/wait_seconds", nil},
		{"a time to live of 0", "PUT", at + "/kv/n/k?ttl=0", `{"data":2}`, "ttl", nil},

		{"a parameter twice", "GET", at + "/threads?limit=1&limit=2", "", "limit", nil},
		{"an empty parameter", "GET", at + "/threads?assistant=", "", "assistant", nil},
		{"a limit over the largest", "GET", at + "/threads?limit=1001", "", "limit", nil},
		{"two names of one parameter", "GET", thread + "/messages?last=5&limit=5", "", "limit", nil},

		{"a lone surrogate", "POST", thread + "/messages", `{"role":"user","blocks":[{"type":"text","content":"\ud800"}]}`, "/blocks/0/content", nil},
		{"a lone surrogate in any JSON", "PUT", at + "/kv/n/k", `{"data":{"a":"\udc00"}}`, "/data/a", nil},
		{"a name twice", "PUT", at + "/kv/n/k", `{"data":1,"data":2}`, "/data", nil},
		{"a name twice in any JSON", "PUT", at + "/kv/n/k", `{"data":{"a":1,"a":2}}`, "/data/a", nil},
		{"null for a member that may be left out", "PATCH", thread, `{"title":null}`, "/title", nil},
		{"null for a member that must be there", "POST", thread + "/messages", `{"role":"user","blocks":null}`, "/blocks", nil},
		{"a policy of nothing", "POST", thread + "/runs", `{"prompt":"x","policy":""}`, "/policy", nil},
		{"a member that is missing", "POST", thread + "/messages", `{"role":"user"}`, "/blocks", nil},
		{"a cancel for no known cause", "POST", thread + "/runs/run_" + strings.Repeat("0", 32) + "/cancel", `{"cause":""}`, "/cause", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var body io.Reader
			if tt.body != "" {
				body = strings.NewReader(tt.body)
			}
			req, err := http.NewRequestWithContext(t.Context(), tt.method, s.http.URL+tt.path, body)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(tt.headers); i += 2 {
				req.Header.Add(tt.headers[i], tt.headers[i+1])
			}
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			data, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			p := reply{resp.StatusCode, resp.Header, data}.problem(t)
			if resp.StatusCode != 400 || p.Code != "invalid" || p.Field != tt.field {
				t.Errorf("%d %s, field %q (%s); want 400 invalid, field %q", resp.StatusCode, p.Code, p.Field, p.Detail, tt.field)
			}
		})
	}
}

// The refusal of an unknown name lists the known ones.
func TestARefusalNamesWhatIsKnown(t *testing.T) {
	s := serve(t, nil)
	thread := at + "/threads/" + s.createThread("project:a", nil)
	for _, tt := range []struct{ method, path, body, want string }{
		{"POST", thread + "/messages", `{"role":"user","text":"hi"}`, "`text` is not known here; known are `role`, `blocks`"},
		{"POST", thread + "/messages", `{"role":"user","blocks":[{"type":"text","text":"hi"}]}`, "known are `type`, `content`, `meta`"},
		{"POST", thread + "/messages", `{"role":"boss","blocks":[]}`, "\"boss\" is not one of user, assistant, system"},
		{"POST", thread + "/todos", `{"content":"x","actor":"user:1"}`, "`actor` is not known here; known are `id`, `content`, `status`, `priority`"},
		{"POST", thread + "/todos", `{"content":"x","created_at":"2020-01-01T00:00:00Z"}`, "`created_at` is not known here"},
		{"POST", thread + "/todos", `{"content":"x","updated_at":"2020-01-01T00:00:00Z"}`, "`updated_at` is not known here"},
		{"GET", at + "/threads?size=3", "", "`size` is not known here; known are `limit`, `cursor`, `assistant`, `children`"},
		{"DELETE", thread + "?force=true", "", "`force` is not known here; nothing is"},
	} {
		var body any
		if tt.body != "" {
			body = tt.body
		}
		if p := s.refuse(400, "invalid", tt.method, tt.path, body); !strings.Contains(p.Detail, tt.want) {
			t.Errorf("%s %s %s: %q does not hold %q", tt.method, tt.path, tt.body, p.Detail, tt.want)
		}
	}
}

// An Idempotency-Key is for one request; with another precondition or media type it is
// another request.
func TestAKeyIsForOneMeaning(t *testing.T) {
	s := serve(t, nil)
	s.want(200, nil, "PUT", at+"/documents/d", `{"value":{"ops":[]}}`)
	const body = `{"ops":[{"op":"append","path":"/ops","value":1}]}`
	key := []string{"Idempotency-Key", "k"}
	first := s.want(200, nil, "PATCH", at+"/documents/d", body, key...)
	again := s.want(200, nil, "PATCH", at+"/documents/d", body, append(key, "Content-Type", "application/json")...)
	if string(first.body) != string(again.body) {
		t.Errorf("a repeat got %s, want %s", again.body, first.body)
	}
	s.refuse(422, "invalid", "PATCH", at+"/documents/d", body, append(key, "Content-Type", "application/merge-patch+json")...)
	s.refuse(422, "invalid", "PATCH", at+"/documents/d", body, append(key, "If-Match", first.header.Get("ETag"))...)
	s.refuse(422, "invalid", "PATCH", at+"/documents/d", body, append(key, "If-None-Match", "*")...)
}

func TestABodyOfAnotherMediaTypeIsRefused(t *testing.T) {
	s := serve(t, nil)
	for _, mediaType := range []string{"text/html", "application/xml", "application/json; charset=utf-16"} {
		s.refuse(415, "invalid", "PUT", at+"/kv/n/k", `{"data":1}`, "Content-Type", mediaType)
	}
	for _, mediaType := range []string{"application/json", "application/json; charset=UTF-8", "application/x-www-form-urlencoded"} {
		s.want(200, nil, "PUT", at+"/kv/n/k", `{"data":1}`, "Content-Type", mediaType)
	}
}

// 0 means not to wait, also where the default is to wait.
func TestAWaitOfNoSecondsOnlyLooks(t *testing.T) {
	s := serve(t, nil)
	thread := at + "/threads/" + s.createThread("project:a", nil)
	s.want(201, nil, "POST", thread+"/runs", `{"prompt":"x","agent":"a"}`)
	var c struct {
		Token string
		Run   struct{ ID string }
	}
	s.want(200, &c, "POST", "/v1/runs/claim", `{"spaces":["project:a"],"agent":"a"}`)
	one := thread + "/runs/" + c.Run.ID
	var got struct {
		Arrived bool
		Data    int
	}
	s.want(200, &got, "POST", one+"/wait", `{"name":"go","wait_seconds":0}`, "Thole-Fence", c.Token)
	var r struct{ Status string }
	s.want(200, &r, "GET", one, nil)
	if got.Arrived || r.Status != "running" {
		t.Errorf("nothing came: arrived %v, the run is %s", got.Arrived, r.Status)
	}
	s.want(204, nil, "POST", one+"/signals", `{"name":"go","data":7}`)
	key := []string{"Thole-Fence", c.Token, "Idempotency-Key", "k"}
	for range 2 {
		got.Data = 0
		if s.want(200, &got, "POST", one+"/wait", `{"name":"go","wait_seconds":0}`, key...); !got.Arrived || got.Data != 7 {
			t.Errorf("a signal came: got %+v", got)
		}
	}
	s.want(200, &got, "POST", one+"/wait", `{"name":"go","wait_seconds":0}`, "Thole-Fence", c.Token)
	if got.Arrived {
		t.Error("a signal was taken twice")
	}
}

func TestAProblemHoldsNoEscapesForHTML(t *testing.T) {
	s := serve(t, nil)
	if r := s.do("GET", at+"/threads?a%26b=%3C", nil); !strings.Contains(string(r.body), "`a&b`") {
		t.Errorf("problem: %s", r.body)
	}
}

func TestARangeThatIsNotThereIsAProblem(t *testing.T) {
	s := serve(t, nil)
	const path = at + "/blobs/2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	s.want(200, nil, "PUT", path, "hello")
	for _, r := range []string{"bytes=100-", "bytes=5-2", "lines=1-2"} {
		s.refuse(416, "invalid", "GET", path, nil, "Range", r)
	}
}

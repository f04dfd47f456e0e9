package rest_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/state/file"
)

// versioned is what answers with a version have in common.
type versioned struct {
	ID      string          `json:"id"`
	Exists  bool            `json:"exists"`
	Data    json.RawMessage `json:"data"`
	Value   json.RawMessage `json:"value"`
	Version thole.Position  `json:"version"`
	Items   []versioned     `json:"items"`
}

func (s *server) createThread(space string, in any) string {
	s.t.Helper()
	var v versioned
	s.want(201, &v, "POST", "/v1/spaces/"+space+"/threads", in)
	return v.ID
}

func TestAValueIsSetReadAndDeletedUnderAnyName(t *testing.T) {
	s := serve(t, nil)
	for _, key := range []string{"a", "src/app.ts", "..", "a b", "ü🚣", "100%", "a//b", "."} {
		path := "/v1/spaces/user:1/kv/prefs/" + strings.NewReplacer(".", "%2E").Replace(url.PathEscape(key))
		var v versioned
		s.want(200, &v, "GET", path, nil)
		if v.Exists {
			t.Errorf("%q exists before it was set", key)
		}
		put := s.want(200, &v, "PUT", path, `{"data": {"x": [1]}}`)
		s.want(200, &v, "GET", path, nil)
		if !v.Exists || string(v.Data) != `{"x":[1]}` && string(v.Data) != `{"x": [1]}` {
			t.Errorf("%q reads %+v", key, v)
		}
		tag := put.header.Get("ETag")
		if tag != `"`+v.Version.String()+`"` {
			t.Errorf("%q: ETag %s, version %s", key, tag, v.Version)
		}
		if r := s.do("GET", path, nil, "If-None-Match", tag); r.status != 304 || len(r.body) != 0 {
			t.Errorf("%q: If-None-Match with the current ETag gives %d %s, want 304", key, r.status, r.body)
		}
		s.want(204, nil, "DELETE", path, nil)
		s.want(200, &v, "GET", path, nil)
		if v.Exists {
			t.Errorf("%q exists after it was deleted", key)
		}
	}
	const path = "/v1/spaces/user:1/kv/prefs/a"
	s.refuse(400, "invalid", "PUT", path, `{}`)
	s.refuse(400, "invalid", "PUT", path+"?ttl=0", `{"data":1}`)
	s.refuse(400, "invalid", "PUT", path+"?ttl=99999999999999999999", `{"data":1}`)
	s.refuse(413, "too_large", "PUT", "/v1/spaces/user:1/kv/prefs/"+strings.Repeat("k", 10_000), `{"data":1}`)
	s.refuse(400, "invalid", "PUT", "/v1/spaces/user:1/kv/prefs/a%00", `{"data":1}`)
}

func TestAVersionThatIsNotCurrentIs412WithTheCurrentOne(t *testing.T) {
	s := serve(t, nil)
	id := s.createThread("project:a", nil)
	const docs = "/v1/spaces/project:a/documents/settings"
	tests := []struct{ method, path, body string }{
		{"PUT", "/v1/spaces/project:a/kv/n/k", `{"data":%d}`},
		{"PUT", docs, `{"value":%d}`},
		{"PATCH", docs, `{"n":%d}`},
		{"PUT", "/v1/spaces/project:a/threads/" + id + "/state", `{"value":%d}`},
		{"PATCH", "/v1/spaces/project:a/threads/" + id, `{"title":"%d"}`},
		{"PUT", "/v1/spaces/project:a/threads/" + id + "/todos", `{"items":[{"id":"a","content":"%d"}]}`},
		{"POST", "/v1/spaces/project:a/threads/" + id + "/messages", `{"role":"user","blocks":[{"type":"text","content":"%d"}]}`},
	}
	for i, tt := range tests {
		body := func(n int) string { return fmt.Sprintf(tt.body, i*10+n) }
		ok := s.do(tt.method, tt.path, body(1))
		old := ok.header.Get("ETag")
		if ok.status >= 300 || old == "" {
			t.Fatalf("%s %s: %d, ETag %q: %s", tt.method, tt.path, ok.status, old, ok.body)
		}
		now := s.do(tt.method, tt.path, body(2), "If-Match", old)
		if now.status >= 300 {
			t.Errorf("%s %s with the current version: %d %s", tt.method, tt.path, now.status, now.body)
		}
		r := s.do(tt.method, tt.path, body(3), "If-Match", old)
		p := r.problem(t)
		if r.status != 412 || p.Code != "conflict" || etagOf(p.Current.String()) != now.header.Get("ETag") || r.header.Get("ETag") != now.header.Get("ETag") {
			t.Errorf("%s %s with an old version: %d %+v, ETag %s; want 412 and %s", tt.method, tt.path, r.status, p, r.header.Get("ETag"), now.header.Get("ETag"))
		}
		if r := s.do(tt.method, tt.path, body(4), "If-Match", "*"); r.status >= 300 {
			t.Errorf("%s %s with If-Match: *: %d %s", tt.method, tt.path, r.status, r.body)
		}
		s.refuse(400, "invalid", tt.method, tt.path, body(5), "If-Match", `"x"`)
	}
	for _, tt := range tests[:4] {
		if tt.method == "PUT" {
			s.refuse(412, "conflict", tt.method, tt.path, fmt.Sprintf(tt.body, 1), "If-None-Match", "*")
		}
	}
	s.refuse(412, "conflict", "PUT", "/v1/spaces/project:a/kv/n/absent", `{"data":1}`, "If-Match", "*")
	s.want(200, nil, "PUT", "/v1/spaces/project:a/kv/n/absent", `{"data":1}`, "If-None-Match", "*")
}

func etagOf(version string) string { return `"` + version + `"` }

func TestConcurrentAppendsWithIfMatchLoseNothing(t *testing.T) {
	s := serve(t, nil)
	id := s.createThread("project:a", nil)
	path := "/v1/spaces/project:a/threads/" + id
	const clients, each = 8, 5
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			tag := ""
			for n := range each {
				body := fmt.Sprintf(`{"role":"user","blocks":[{"type":"text","content":"%d.%d"}]}`, c, n)
				for {
					if tag == "" {
						tag = s.do("GET", path, nil).header.Get("ETag")
					}
					r := s.do("POST", path+"/messages", body, "If-Match", tag)
					tag = r.header.Get("ETag") // of the new version, or the current one beside a 412
					if r.status == 201 {
						break
					}
					if p := r.problem(t); r.status != 412 || p.Current.IsZero() || tag == "" {
						t.Errorf("conflict is %d %+v", r.status, p)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	var p versioned
	s.want(200, &p, "GET", path+"/messages?last=100", nil)
	if len(p.Items) != clients*each {
		t.Errorf("%d messages, want %d", len(p.Items), clients*each)
	}
}

func TestIncrementsFromManyClientsAddUp(t *testing.T) {
	s := serve(t, nil)
	const path = "/v1/spaces/project:a/documents/counter"
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				s.do("PATCH", path, `{"ops":[{"op":"increment","path":"/n"}]}`)
			}
		})
	}
	wg.Wait()
	var v versioned
	s.want(200, &v, "GET", path, nil)
	if got := strings.ReplaceAll(string(v.Value), " ", ""); got != `{"n":80}` {
		t.Errorf("counter is %s, want 80", got)
	}
}

func TestADocumentTakesEveryKindOfPatchAndKeepsItsPast(t *testing.T) {
	s := serve(t, nil)
	id := s.createThread("project:a", nil)
	for _, path := range []string{"/v1/spaces/project:a/documents/ui/settings", "/v1/spaces/project:a/threads/" + id + "/state"} {
		first := s.want(200, nil, "PUT", path, `{"value":{"a":1}}`)
		at := strings.Trim(first.header.Get("ETag"), `"`)
		s.want(200, nil, "PATCH", path, `{"b":{"c":2}}`)
		s.want(200, nil, "PATCH", path, `{"b":{"d":3}}`, "Content-Type", "application/merge-patch+json")
		s.want(200, nil, "PATCH", path, `[{"op":"remove","path":"/a"}]`)
		s.want(200, nil, "PATCH", path, `[{"op":"add","path":"/e","value":5}]`, "Content-Type", "application/json-patch+json")
		var v versioned
		s.want(200, &v, "PATCH", path, `{"ops":[{"op":"increment","path":"/b/c","by":40}]}`)
		if string(v.Value) != `{"b":{"c":42,"d":3},"e":5}` {
			t.Errorf("%s is %s", path, v.Value)
		}
		now := v
		s.want(200, &v, "GET", path+"?at="+at, nil)
		if string(v.Value) != `{"a":1}` || v.Version.String() != at {
			t.Errorf("%s at %s is %s, version %s", path, at, v.Value, v.Version)
		}
		s.refuse(415, "invalid", "PATCH", path, `{}`, "Content-Type", "text/plain")
		s.refuse(400, "invalid", "PATCH", path, `[{"op":"remove","path":"/zz"}]`)
		s.refuse(409, "conflict", "PATCH", path, `[{"op":"test","path":"/e","value":6}]`)
		s.refuse(409, "conflict", "PATCH", path, `[{"op":"test","path":"/e","value":6}]`, "If-Match", etagOf(now.Version.String()))
		s.refuse(400, "invalid", "PATCH", path, `{"ops":[{"op":"multiply","path":"/e"}]}`)
		s.refuse(400, "invalid", "PATCH", path, `{`)
		s.refuse(400, "invalid", "GET", path+"?at=x", nil)
		s.refuse(400, "invalid", "PUT", path, `{"val":1}`)
	}
	s.refuse(404, "not_found", "GET", "/v1/spaces/project:a/threads/thrd_00000000000000000000000000000000/state", nil)
}

func TestAConversationIsPostedAndReadBack(t *testing.T) {
	s := serve(t, nil)
	r := s.want(201, nil, "POST", "/v1/spaces/project:a/threads", `{"title":"hi","assistant":"coder"}`)
	path := r.header.Get("Location")
	var v versioned
	s.want(200, &v, "GET", path, nil)
	msg := map[string]any{"role": "user", "blocks": []any{map[string]any{"type": "text", "content": "hello"}}}
	first := s.want(201, nil, "POST", path+"/messages", msg, "Idempotency-Key", "m1")
	again := s.want(201, nil, "POST", path+"/messages", msg, "Idempotency-Key", "m1")
	var one, two versioned
	if json.Unmarshal(first.body, &one) != nil || json.Unmarshal(again.body, &two) != nil || one.ID != two.ID || one.Version != two.Version {
		t.Errorf("a repeat answers\n%s, the first was\n%s", again.body, first.body)
	}
	for i := range 4 {
		msg["blocks"] = []any{map[string]any{"type": "text", "content": fmt.Sprint(i)}}
		s.want(201, nil, "POST", path+"/messages", msg)
	}
	var page struct {
		Items []struct {
			Role   string
			Blocks []struct{ Content string }
		}
		Next string `json:"next_cursor"`
	}
	s.want(200, &page, "GET", path+"/messages?last=2", nil)
	if len(page.Items) != 2 || page.Items[1].Blocks[0].Content != "3" || page.Next == "" {
		t.Errorf("last 2: %+v", page)
	}
	s.want(200, &page, "GET", path+"/messages?last=10&cursor="+url.QueryEscape(page.Next), nil)
	if len(page.Items) != 3 || page.Items[0].Blocks[0].Content != "hello" || page.Next != "" {
		t.Errorf("older files: %+v", page)
	}
	s.want(200, &page, "GET", path+"/turns", nil)
	if len(page.Items) != 5 {
		t.Errorf("%d turns, want 5", len(page.Items))
	}
	var events eventPage
	s.want(200, &events, "GET", path+"/events", nil)
	if len(events.Items) != 6 || events.Items[0].Type != "thread.created" {
		t.Errorf("events: %+v", events.Items)
	}
	s.refuse(400, "invalid", "POST", path+"/messages", `{"role":"user","blocks":[{"type":"text","contents":"x"}]}`)
	s.refuse(400, "invalid", "POST", path+"/messages", `{"role":"boss","blocks":[{"type":"text","content":"x"}]}`)
	s.refuse(400, "invalid", "POST", path+"/messages", `{"role":"user","blocks":"x"}`)
	s.refuse(400, "invalid", "GET", "/v1/spaces/project:a/threads/..%2Fx", nil)
	s.refuse(404, "not_found", "GET", "/v1/spaces/project:a/threads/thrd_00000000000000000000000000000000", nil)
	for _, bad := range []string{"thrd_zz", "thrd_00", "x"} {
		s.refuse(400, "invalid", "GET", "/v1/spaces/project:a/threads/"+bad, nil)
	}
	s.want(204, nil, "DELETE", path, nil)
	s.refuse(404, "not_found", "GET", path, nil)
}

func TestTodosAreKeptInOrder(t *testing.T) {
	s := serve(t, nil)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil) + "/todos"
	var v versioned
	s.want(201, &v, "POST", path, `{"content":"a"}`)
	s.want(201, nil, "POST", path, `{"id":"b","content":"b","priority":"high"}`)
	s.refuse(409, "exists", "POST", path, `{"id":"b","content":"b"}`)
	s.want(200, nil, "PATCH", path+"/"+v.ID, `{"status":"completed"}`)
	s.refuse(400, "invalid", "PATCH", path+"/"+v.ID, `{"status":"cooked"}`)
	s.want(204, nil, "DELETE", path+"/"+v.ID, nil)
	s.refuse(404, "not_found", "DELETE", path+"/"+v.ID, nil)
	s.want(200, &v, "GET", path, nil)
	if len(v.Items) != 1 || v.Items[0].ID != "b" {
		t.Errorf("todos: %+v", v.Items)
	}
	s.want(200, &v, "PUT", path, `{"items":[{"id":"b","content":"b"},{"content":"c"}]}`)
	var read struct{ Items []map[string]any }
	s.want(200, &read, "GET", path, nil)
	s.want(200, nil, "PUT", path, map[string]any{"items": read.Items})
	s.want(200, &v, "PUT", path, `{"items":[]}`)
	if v.Items == nil || len(v.Items) != 0 {
		t.Errorf("an empty list is %+v", v.Items)
	}
}

func TestAPrivateThreadIsItsOwnersAlone(t *testing.T) {
	s := serveWithTokens(t, nil)
	grant := auth.Grant{Space: "project:a", Access: auth.Write}
	owner, other := s.as("user:1", grant), s.as("user:2", grant)
	admin := s.as("user:3", auth.Grant{Space: "project:a", Access: auth.Admin})
	heard := other.watch("/v1/spaces/project:a/events?after=")
	own := owner.watch("/v1/spaces/project:a/events?after=")

	id := owner.createThread("project:a", `{"visibility":"private","title":"secret"}`)
	path := "/v1/spaces/project:a/threads/" + id
	owner.want(201, nil, "POST", path+"/messages", `{"role":"user","blocks":[{"type":"text","content":"secret"}]}`)
	for _, sub := range []string{"", "/messages", "/turns", "/state", "/todos", "/events"} {
		other.refuse(404, "not_found", "GET", path+sub, nil)
		owner.want(200, nil, "GET", path+sub, nil)
		admin.want(200, nil, "GET", path+sub, nil)
	}
	other.refuse(404, "not_found", "DELETE", path, nil)
	for _, sub := range []string{"/threads", "/events"} {
		if r := other.want(200, nil, "GET", "/v1/spaces/project:a"+sub, nil); strings.Contains(string(r.body), "secret") {
			t.Errorf("%s leaks a private thread: %s", sub, r.body)
		}
		if r := owner.want(200, nil, "GET", "/v1/spaces/project:a"+sub, nil); !strings.Contains(string(r.body), "secret") {
			t.Errorf("%s hides a private thread from its owner", sub)
		}
	}
	owner.want(204, nil, "DELETE", path, nil)
	if r := other.want(200, nil, "GET", "/v1/spaces/project:a/events", nil); strings.Contains(string(r.body), id) {
		t.Errorf("after its end a private thread leaks: %s", r.body)
	}
	owner.addEvent("project:a", "app.end", nil)
	if f := heard.mustNext(); f.event != "app.end" {
		t.Errorf("a stream leaks %s", f.raw)
	}
	if f := own.mustNext(); f.event != "thread.created" {
		t.Errorf("its owner first receives %s", f.raw)
	}
}

func TestADecisionIsWrittenBeforeTheActAndItsOutcomeOnce(t *testing.T) {
	s := serve(t, nil)
	const path = "/v1/spaces/project:a/decisions"
	var v versioned
	r := s.want(201, &v, "POST", path, `{"action":"write a.ts","rationale":"asked","idempotent":true}`)
	one := r.header.Get("Location")
	if one != path+"/"+v.ID {
		t.Errorf("Location %s", one)
	}
	s.want(201, nil, "POST", path, `{"action":"style","decision":"tabs","standing":true}`)
	var list versioned
	s.want(200, &list, "GET", path+"?incomplete=true", nil)
	if len(list.Items) != 1 || list.Items[0].ID != v.ID {
		t.Errorf("incomplete: %+v", list.Items)
	}
	s.want(200, nil, "POST", one+"/outcome", `{"outcome":"unknown"}`)
	s.want(200, nil, "POST", one+"/outcome", `{"outcome":"done","result":{"bytes":3}}`)
	s.want(200, nil, "POST", one+"/outcome", `{"outcome":"done","result":{"bytes":3}}`)
	s.want(200, nil, "POST", one+"/outcome", `{"outcome":"done"}`)
	s.refuse(409, "conflict", "POST", one+"/outcome", `{"outcome":"done","result":{"bytes":4}}`)
	s.refuse(409, "conflict", "POST", one+"/outcome", `{"outcome":"failed"}`)
	s.refuse(400, "invalid", "POST", one+"/outcome", `{"outcome":"great"}`)
	s.refuse(400, "invalid", "POST", path, `{}`)
	s.refuse(404, "not_found", "GET", path+"/dec_00000000000000000000000000000000", nil)
	s.want(200, &list, "GET", path+"?incomplete=true", nil)
	if list.Items == nil || len(list.Items) != 0 {
		t.Errorf("incomplete after the outcome: %+v", list.Items)
	}
	if r := s.want(200, nil, "GET", path+"/index", nil); !strings.Contains(string(r.body), "tabs") || !strings.Contains(string(r.body), v.ID) {
		t.Errorf("index: %s", r.body)
	}
}

func TestAChangeOfAFileThatIsNotCurrentIsRefused(t *testing.T) {
	s := serve(t, nil)
	const path = "/v1/spaces/project:a/files/src/app.ts"
	a, b, c := strings.Repeat("a", 64), strings.Repeat("b", 64), strings.Repeat("c", 64)
	change := func(from, to string) map[string]string {
		return map[string]string{"before_hash": from, "after_hash": to}
	}
	s.want(201, nil, "POST", path, change("", a))
	s.want(201, nil, "POST", path, change(a, b))
	if p := s.refuse(409, "conflict", "POST", path, change(a, c)); p.Hash != b {
		t.Errorf("the conflict does not say what the file is: %+v", p)
	}
	s.refuse(400, "invalid", "POST", path, change(b, "x"))
	s.refuse(400, "invalid", "POST", "/v1/spaces/project:a/files/%2E%2E%2Fetc", change("", a))
	if r := s.want(200, nil, "GET", path, nil); !strings.Contains(string(r.body), b) {
		t.Errorf("file: %s", r.body)
	}
	var list versioned
	s.want(200, &list, "GET", "/v1/spaces/project:a/files", nil)
	if len(list.Items) != 1 {
		t.Errorf("files: %+v", list.Items)
	}
}

func TestAFilesPastConflictsAndFoundChangesAreTold(t *testing.T) {
	s := serve(t, nil)
	const files, history = "/v1/spaces/project:a/files/src/app.ts", "/v1/spaces/project:a/file-history/src/app.ts"
	b64 := base64.StdEncoding.EncodeToString
	one, two, three := file.Hash([]byte("one")), file.Hash([]byte("two")), file.Hash([]byte("three"))
	s.want(201, nil, "POST", files, map[string]any{"before_hash": "", "after_hash": one, "contents": map[string]string{"after": b64([]byte("one"))}})
	s.want(201, nil, "POST", files, map[string]any{"before_hash": one, "after_hash": two})
	if r := s.want(200, nil, "GET", "/v1/spaces/project:a/blobs/"+one, nil); string(r.body) != "one" {
		t.Errorf("the content that was kept is %q", r.body)
	}
	s.refuse(400, "invalid", "POST", files, map[string]any{"before_hash": two, "after_hash": three, "contents": map[string]string{"after": "?"}})
	s.refuse(400, "invalid", "POST", files, map[string]any{"before_hash": two, "after_hash": three, "contents": map[string]string{"after": b64([]byte("two"))}})
	var found file.File
	s.want(200, &found, "PUT", files, map[string]string{"hash": three})
	if found.Actor != file.Outside || found.Hash != three {
		t.Errorf("found: %+v", found)
	}
	s.refuse(400, "invalid", "PUT", files, `{"hash":"x"}`)

	var past []file.Entry
	cursor := ""
	for range 3 {
		var page struct {
			Items []file.Entry
			Next  string `json:"next_cursor"`
		}
		s.want(200, &page, "GET", history+"?limit=1"+after(cursor), nil)
		past, cursor = append(past, page.Items...), page.Next
	}
	if len(past) != 3 || past[0].After != three || !past[0].Found || past[1].After != two || past[2].After != one || !past[2].Kept || cursor != "" {
		t.Errorf("history %+v, then cursor %q", past, cursor)
	}
	s.want(200, nil, "GET", "/v1/spaces/project:a/file-history/unknown", nil)
	s.refuse(400, "invalid", "GET", history+"?cursor=x", nil)

	w := s.watch("/v1/spaces/project:a/events?types=file.conflict&after=")
	const conflicts = "/v1/spaces/project:a/file-conflicts/src/app.ts"
	s.want(204, nil, "POST", conflicts, map[string]any{"base_hash": one, "ours_hash": two, "theirs_hash": three, "rejected": []int{1}})
	var c file.Conflict
	if err := json.Unmarshal(w.mustNext().data.Data, &c); err != nil || c.Path != "src/app.ts" || c.Theirs != three || c.Actor != "user:local" || string(c.Rejected) != "[1]" {
		t.Errorf("received %+v, %v", c, err)
	}
	s.refuse(400, "invalid", "POST", conflicts, `{"base_hash":"x"}`)
}

func TestDecisionsInAPrivateThreadStayThere(t *testing.T) {
	s := serveWithTokens(t, nil)
	grant := auth.Grant{Space: "project:a", Access: auth.Write}
	owner, other := s.as("user:1", grant), s.as("user:2", grant)
	id := owner.createThread("project:a", `{"visibility":"private"}`)
	var v versioned
	owner.want(201, &v, "POST", "/v1/spaces/project:a/decisions", `{"action":"secret","thread":"`+id+`"}`)
	const path = "/v1/spaces/project:a/decisions"
	owner.want(200, nil, "POST", path+"/"+v.ID+"/outcome", `{"outcome":"done","result":"secret"}`)
	other.refuse(404, "not_found", "GET", path+"/"+v.ID, nil)
	for _, p := range []string{path, path + "/index", "/v1/spaces/project:a/events"} {
		if r := other.want(200, nil, "GET", p, nil); strings.Contains(string(r.body), "secret") {
			t.Errorf("%s leaks %s", p, r.body)
		}
		if r := owner.want(200, nil, "GET", p, nil); !strings.Contains(string(r.body), "secret") {
			t.Errorf("%s hides its own from the owner", p)
		}
	}
}

func TestATurnIsPostedWholeAndOnce(t *testing.T) {
	s := serve(t, nil)
	var th struct{ ID string }
	s.want(201, &th, "POST", "/v1/spaces/project:a/threads", nil)
	path := "/v1/spaces/project:a/threads/" + th.ID
	body := `{"request":[{"type":"text","content":"Which?"}],"response":[{"type":"text","content":"That."}]}`
	first := s.want(201, nil, "POST", path+"/turns", body, "Idempotency-Key", "t1")
	again := s.want(201, nil, "POST", path+"/turns", body, "Idempotency-Key", "t1")
	if string(first.body) != string(again.body) {
		t.Errorf("a repeat got %s, want %s", again.body, first.body)
	}
	var turns struct {
		Items []struct {
			Status   string
			Response []struct{ Content string }
		}
	}
	s.want(200, &turns, "GET", path+"/turns", nil)
	if n := len(turns.Items); n != 1 || turns.Items[0].Status != "done" || turns.Items[0].Response[0].Content != "That." {
		t.Errorf("turns: %s", s.want(200, nil, "GET", path+"/turns", nil).body)
	}
	s.refuse(400, "invalid", "POST", path+"/turns", `{"request":[]}`)
	s.refuse(412, "conflict", "POST", path+"/turns", body, "If-Match", `"0001aaaaaaaa-0000000000000001"`)
}

func TestASummaryStandsForTheTurnsBeforeIt(t *testing.T) {
	s := serve(t, nil)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
	var turns []string
	for _, text := range []string{"one", "two", "three"} {
		var m struct{ Turn string }
		s.want(201, &m, "POST", path+"/messages", `{"role":"system","blocks":[{"type":"text","content":"`+text+`"}]}`)
		turns = append(turns, m.Turn)
	}
	s.want(204, nil, "POST", path+"/compact", map[string]string{"upto": turns[1], "summary": "in short"})
	body := string(s.want(200, nil, "GET", path+"/turns", nil).body)
	if !strings.Contains(body, "in short") || strings.Contains(body, "two") || !strings.Contains(body, "three") {
		t.Errorf("turns: %s", body)
	}
	s.refuse(400, "invalid", "POST", path+"/compact", map[string]string{"upto": turns[1]})
	s.refuse(400, "invalid", "POST", path+"/compact", map[string]string{"upto": "x", "summary": "x"})
	s.refuse(404, "not_found", "POST", path+"/compact", map[string]string{"upto": "turn_" + strings.Repeat("0", 32), "summary": "x"})
	var open struct{ Turn string }
	s.want(201, &open, "POST", path+"/messages", `{"role":"user","blocks":[{"type":"text","content":"four"}]}`)
	s.refuse(409, "conflict", "POST", path+"/compact", map[string]string{"upto": open.Turn, "summary": "x"})
}

func TestListsThatComeWholeComeInPartsToo(t *testing.T) {
	s := serve(t, nil)
	thread := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
	s.want(200, nil, "PUT", thread+"/todos", `{"items":[{"content":"a"},{"content":"b"},{"content":"c"}]}`)
	for range 3 {
		s.want(201, nil, "POST", thread+"/runs", `{"prompt":"go"}`)
	}
	for _, path := range []string{thread + "/todos", thread + "/queue"} {
		var whole, part struct {
			Items []struct{ ID string }
			Next  string `json:"next_cursor"`
		}
		s.want(200, &whole, "GET", path, nil)
		if len(whole.Items) != 3 || whole.Next != "" {
			t.Errorf("%s: got %+v, want three", path, whole)
		}
		got, cursor := 0, ""
		for {
			s.want(200, &part, "GET", path+"?limit=2"+after(cursor), nil)
			for _, item := range part.Items {
				if item != whole.Items[got] {
					t.Errorf("%s: item %d: got %v, want %v", path, got, item, whole.Items[got])
				}
				got++
			}
			if cursor = part.Next; cursor == "" {
				break
			}
		}
		if got != 3 {
			t.Errorf("%s in parts: got %d items, want 3", path, got)
		}
		s.refuse(400, "invalid", "GET", path+"?cursor=gone", nil)
	}
}

func TestAPreconditionThatNobodyChecksIsRefused(t *testing.T) {
	s := serve(t, nil)
	thread := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
	var todos struct{ Items []struct{ ID string } }
	s.want(200, &todos, "PUT", thread+"/todos", `{"items":[{"content":"a"}]}`)
	s.refuse(400, "invalid", "PATCH", thread+"/todos/"+todos.Items[0].ID, `{"content":"b"}`, "If-Match", `"0001a3f09c52-0000000000000001"`)
	s.refuse(400, "invalid", "DELETE", thread+"/todos/"+todos.Items[0].ID, nil, "If-None-Match", "*")
	s.refuse(400, "invalid", "POST", "/v1/spaces/project:a/threads", `{}`, "If-None-Match", "*")
}

func TestAnOpTakesOnlyWhatIsItsOwn(t *testing.T) {
	s := serve(t, nil)
	for _, path := range []string{"/v1/spaces/project:a/documents/d", "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil) + "/state"} {
		s.want(200, nil, "PUT", path, `{"value":{"n":1,"l":[]}}`)
		for op, names := range map[string]string{
			`{"op":"increment","path":"/n","value":5}`:       "not value",
			`{"op":"increment","path":"/n","value":null}`:    "not value",
			`{"op":"increment","path":"/n","by":null}`:       "/ops/1/by",
			`{"op":"append","path":"/l","by":5}`:             "not by",
			`{"op":"append","path":"/l","by":1,"value":"x"}`: "not by",
		} {
			p := s.refuse(400, "invalid", "PATCH", path, `{"ops":[{"op":"increment","path":"/n"},`+op+`]}`)
			if !strings.Contains(p.Detail+p.Field, names) {
				t.Errorf("%s: %+v does not name %q", op, p, names)
			}
		}
	}
}

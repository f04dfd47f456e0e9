package rest_test

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// conditional is an operation that takes If-Match and If-None-Match. If make is nil,
// the operation itself makes what it changes.
type conditional struct {
	operation string // as the OpenAPI document has it
	thread    bool   // first make a thread; %s in the other fields is its path
	path      string
	make      []string // a request that makes it: method, path, body
	tag       string   // where to read its ETag; "": path
	body      string
	absent    int // status with If-Match: * if there is nothing: 412, or 404 if the path needs it
	once      bool
}

const at = "/v1/spaces/project:a"

func conditionalOperations() []conditional {
	doc, val := []string{"PUT", at + "/documents/d", `{"value":{"n":1}}`}, []string{"PUT", at + "/kv/n/k", `{"data":1}`}
	state := []string{"PUT", "%s/state", `{"value":{"n":1}}`}
	todos := []string{"PUT", "%s/todos", `{"items":[{"id":"a","content":"x"}]}`}
	return []conditional{
		{operation: "PUT " + at + "/documents/d", path: doc[1], make: doc, body: `{"value":{"n":2}}`, absent: 412},
		{operation: "PATCH " + at + "/documents/d", path: doc[1], make: doc, body: `{"ops":[{"op":"increment","path":"/n"}]}`, absent: 412},
		{operation: "DELETE " + at + "/documents/d", path: doc[1], make: doc, absent: 412, once: true},
		{operation: "PUT " + at + "/kv/n/k", path: val[1], make: val, body: `{"data":2}`, absent: 412},
		{operation: "DELETE " + at + "/kv/n/k", path: val[1], make: val, absent: 412, once: true},
		{operation: "PUT " + at + "/threads/T/state", thread: true, path: "%s/state", make: state, body: `{"value":{"n":2}}`, absent: 412},
		{operation: "PATCH " + at + "/threads/T/state", thread: true, path: "%s/state", make: state, body: `{"ops":[{"op":"increment","path":"/n"}]}`, absent: 412},
		{operation: "PUT " + at + "/threads/T/todos", thread: true, path: "%s/todos", make: todos, body: `{"items":[{"id":"a","content":"y"}]}`, absent: 200},
		{operation: "PATCH " + at + "/threads/T", thread: true, path: "%s", body: `{"title":"new"}`, absent: 404},
		{operation: "DELETE " + at + "/threads/T", thread: true, path: "%s", absent: 404, once: true},
		{operation: "POST " + at + "/threads/T/messages", thread: true, path: "%s/messages", tag: "%s", body: `{"role":"user","blocks":[{"type":"text","content":"hi"}]}`, absent: 404},
		{operation: "POST " + at + "/threads/T/turns", thread: true, path: "%s/turns", tag: "%s", body: `{"request":[{"type":"text","content":"hi"}]}`, absent: 404},
		{operation: "PATCH " + at + "/threads/T/queue/R", thread: true, path: "%s/queue/", tag: "%s/runs/", body: `{"prompt":"new"}`, absent: 404},
	}
}

// there makes what the operation changes, and returns the operation with its paths
// filled in, and the ETag.
func (v conditional) there(s *server, exists bool) (conditional, string) {
	s.t.Helper()
	thread := at + "/threads/thrd_" + strings.Repeat("0", 32)
	if v.thread && (exists || v.absent != 404) {
		thread = at + "/threads/" + s.createThread("project:a", `{}`)
	}
	fill := func(text string) string { return strings.ReplaceAll(text, "%s", thread) }
	v.path, v.tag = fill(v.path), fill(v.tag)
	id := "run_" + strings.Repeat("0", 32)
	if strings.HasSuffix(v.path, "/queue/") {
		if exists {
			var r struct{ ID string }
			s.want(201, nil, "POST", thread+"/runs", `{"prompt":"first","agent":"nobody"}`)
			s.want(201, &r, "POST", thread+"/runs", `{"prompt":"second","agent":"nobody"}`)
			id = r.ID
		}
		v.path, v.tag = v.path+id, v.tag+id
	}
	if v.tag == "" {
		v.tag = v.path
	}
	if !exists {
		return v, ""
	}
	if v.make != nil {
		if r := s.do(v.make[0], fill(v.make[1]), v.make[2]); r.status/100 != 2 {
			s.t.Fatalf("make %s: %d %s", v.path, r.status, r.body)
		}
	}
	tag := s.do("GET", v.tag, nil).header.Get("ETag")
	if tag == "" {
		s.t.Fatalf("%s has no ETag", v.tag)
	}
	return v, tag
}

func (v conditional) do(s *server, headers ...string) reply {
	method, _, _ := strings.Cut(v.operation, " ")
	var body any
	if v.body != "" {
		body = v.body
	}
	return s.do(method, v.path, body, headers...)
}

// mutations lists the operations of the OpenAPI document that change something,
// with names in their paths: "PUT /v1/spaces/project:a/kv/n/k".
func mutations(s *server) (all []string) {
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	s.want(200, &doc, "GET", "/openapi.json", nil)
	names := strings.NewReplacer("{space}", "project:a", "{thread}", "T", "{run}", "R", "{namespace}", "n", "{key}", "k", "{name}", "d")
	for path, methods := range doc.Paths {
		for method := range methods {
			if m := strings.ToUpper(method); slices.Contains([]string{"POST", "PUT", "PATCH", "DELETE"}, m) {
				all = append(all, m+" "+names.Replace(path))
			}
		}
	}
	slices.Sort(all)
	return all
}

func TestEveryVersionedOperationDecidesItsPreconditionInTheCommit(t *testing.T) {
	for _, op := range conditionalOperations() {
		t.Run(strings.ReplaceAll(op.operation, "/", "_"), func(t *testing.T) {
			s := serve(t, nil)
			v, tag := op.there(s, true)
			old := strings.Replace(tag, "-0", "-9", 1) // another position
			if r := v.do(s, "If-Match", old); r.status != 412 {
				t.Errorf("another version: %d %s, want 412", r.status, r.body)
			}
			if r := v.do(s, "If-None-Match", "*"); r.status != 412 && r.status != 400 {
				t.Errorf("If-None-Match: * on an existing thing: %d %s, want 412", r.status, r.body)
			}
			// A repeat gets the first answer, whether or not its condition still
			// holds.
			for _, match := range []string{tag, "*"} {
				if match == "*" {
					v, _ = op.there(s, true)
				}
				key := []string{"If-Match", match, "Idempotency-Key", "of " + match}
				first := v.do(s, key...)
				again := v.do(s, key...)
				if first.status/100 != 2 || again.status != first.status || string(again.body) != string(first.body) {
					t.Errorf("If-Match: %s: first %d %s, then %d %s", match, first.status, first.body, again.status, again.body)
				}
				if r := v.do(s, "If-Match", `"0001deadbeef-0000000000000007"`, "Idempotency-Key", "of "+match); r.status != 422 {
					t.Errorf("another condition under the same key: %d, want 422", r.status)
				}
			}
			if !op.once {
				v, _ = op.there(s, true)
				v.contend(s)
			}
			fresh := serve(t, nil)
			absent, _ := op.there(fresh, false)
			if r := absent.do(fresh, "If-Match", "*"); r.status != op.absent {
				t.Errorf("If-Match: * on an absent thing: %d %s, want %d", r.status, r.body, op.absent)
			}
		})
	}
}

// contend makes many callers change at once what always exists.
func (v conditional) contend(s *server) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if r := v.do(s, "If-Match", "*"); r.status/100 != 2 {
					s.t.Errorf("If-Match: * on a thing that always exists: %d %s", r.status, r.body)
				}
			}
		})
	}
	wg.Wait()
}

func TestEveryOtherMutationRefusesPreconditions(t *testing.T) {
	s := serve(t, nil)
	known := make(map[string]bool)
	for _, v := range conditionalOperations() {
		known[v.operation] = true
	}
	for _, op := range mutations(s) {
		if known[op] {
			delete(known, op)
			continue
		}
		method, path, _ := strings.Cut(op, " ")
		for _, name := range []string{"If-Match", "If-None-Match"} {
			if p := s.refuse(400, "invalid", method, path, `{}`, name, "*"); !strings.Contains(p.Detail, "Match") {
				t.Errorf("%s with %s: %s", op, name, p.Detail)
			}
		}
	}
	for op := range known {
		t.Errorf("%s is not in the OpenAPI document", op)
	}
}

// This holds for every operation, also if it would change nothing.
func TestNoMutationGoesOnUnderALeaseThatWasLost(t *testing.T) {
	s := serve(t, nil)
	thread := s.createThread("project:a", `{}`)
	var lost, held struct{ Token string }
	s.want(201, &lost, "POST", at+"/locks", `{"name":"l","owner":"a"}`)
	s.want(204, nil, "DELETE", at+"/locks/l", nil, "Thole-Fence", lost.Token)
	s.want(201, &held, "POST", at+"/locks", `{"name":"l","owner":"b"}`)
	head := func() string {
		var p struct {
			Items []struct{ Name, Last string }
		}
		s.want(200, &p, "GET", "/v1/spaces", nil)
		return fmt.Sprint(p.Items)
	}
	before := head()
	inPath := regexp.MustCompile(`/T(/|$)`)
	for _, op := range mutations(s) {
		method, path, _ := strings.Cut(op, " ")
		path = inPath.ReplaceAllString(path, "/"+thread+"$1")
		path = strings.NewReplacer("{", url.PathEscape("{"), "}", url.PathEscape("}")).Replace(path)
		if strings.HasPrefix(path, "/v1/spaces/") {
			s.refuse(409, "fenced", method, path, `{}`, "Thole-Fence", lost.Token)
		} else {
			s.refuse(400, "invalid", method, path, `{}`, "Thole-Fence", lost.Token)
		}
	}
	if now := head(); now != before {
		t.Errorf("something was changed: %s, then %s", before, now)
	}
}

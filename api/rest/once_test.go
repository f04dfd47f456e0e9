package rest_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole/internal/effort"
)

// renews are the operations that act each time they are called, and say so: see
// decision 45.
var renews = map[string]bool{
	"POST /v1/spaces/{space}/threads/{thread}/runs/{run}/heartbeat": true,
	"PUT /v1/spaces/{space}/locks/{name...}":                        true,
	"DELETE /v1/spaces/{space}":                                     true,
}

// Every operation that changes something is sent twice at the same time under one key,
// and again after other changes: it happens once, and every time the answer is the
// same. The requests are those of the table of authority, which has one for every
// operation.
func TestEveryOperationHappensOncePerKeyAndKeepsItsAnswer(t *testing.T) {
	effort.SlowUnderRace(t)
	left := make(map[string]bool)
	for _, r := range requests() {
		if r.method() != "GET" && r.message == nil && !renews[r.op] {
			left[r.op] = true
		}
	}
	for _, r := range requests() {
		if !left[r.op] || r.stream {
			continue
		}
		r.headers = append([]string{"Idempotency-Key", "k"}, r.headers...)
		w := newWorld(t)
		if r.before != nil {
			r.before(w)
		}
		var first [2]reply
		var wg sync.WaitGroup
		for i := range first {
			wg.Go(func() { first[i], _ = w.ask(&r, "setup") })
		}
		wg.Wait()
		if first[0].status < 300 {
			delete(left, r.op)
			r.mustRepeat(w, first)
		}
		w.close()
	}
	for op := range left {
		t.Errorf("no request of the table is %s and succeeds", op)
	}
}

func (r *request) mustRepeat(w *world, first [2]reply) {
	w.t.Helper()
	same := func(what string, got reply) {
		w.t.Helper()
		if got.status != first[0].status || !bytes.Equal(got.body, first[0].body) {
			w.t.Errorf("%s, %s: got %d %s, want %d %s", r.row(), what, got.status, got.body, first[0].status, first[0].body)
		}
		for _, name := range []string{"ETag", "Location"} {
			if got.header.Get(name) != first[0].header.Get(name) {
				w.t.Errorf("%s, %s: got %s %q, want %q", r.row(), what, name, got.header.Get(name), first[0].header.Get(name))
			}
		}
	}
	same("at the same time", first[1])
	here := "/v1/spaces/" + tableSpace
	for _, c := range [][3]string{
		{"PUT", here + "/kv/n/k", `{"data":"later"}`},
		{"PUT", here + "/documents/d", `{"value":{"later":true}}`},
		{"PUT", here + "/files/a.txt", `{"hash":"<hash>"}`},
		{"PUT", here + "/files/a.txt", `{"hash":""}`},
	} {
		w.make(c[0], c[1], c[2])
	}
	for _, kind := range []string{"open", "open-busy", "private", "private-busy"} {
		path := here + "/threads/<" + kind + ">"
		if r.method() == "DELETE" && strings.HasSuffix(w.resolve(r.path), w.resolve("/<"+kind+">")) {
			continue // it no longer exists
		}
		w.make("PATCH", path, `{"title":"later"}`)
		w.make("POST", path+"/messages", `{"role":"user","blocks":[{"type":"text","content":"later"}]}`)
		w.make("PUT", path+"/todos", `{"items":[{"id":"later","content":"later"}]}`)
		w.make("PUT", path+"/state", `{"value":"later"}`)
	}
	again, changed := w.ask(r, "setup")
	same("again", again)
	if changed {
		w.t.Errorf("%s, again: it changed the store", r.row())
	}
	if r.body == "" || strings.Contains(r.op, "/blobs/") { // a blob is named after its content
		return
	}
	other := *r
	other.body += " "
	if got, changed := w.ask(&other, "setup"); got.status != 422 || changed {
		w.t.Errorf("%s, with another body: got %d %s, want 422", r.row(), got.status, got.body)
	}
}

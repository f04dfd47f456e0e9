package rest_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
)

const claimPath = "/v1/runs/claim"

// sameTwice sends a request again, as a client that lost the answer does.
func (s *server) sameTwice(out any, method, path string, body any, headers ...string) {
	s.t.Helper()
	first := s.want(200, out, method, path, body, headers...)
	if again := s.do(method, path, body, headers...); again.status != 200 || string(again.body) != string(first.body) {
		s.t.Errorf("%s %s again: got %d %s, want 200 %s", method, path, again.status, again.body, first.body)
	}
}

func TestARepeatedFinishGivesTheFirstAnswer(t *testing.T) {
	s := serveWithTokens(t, nil)
	owner := s.as("user:1", auth.Grant{Space: "project:a", Access: auth.Write})
	worker := s.as("user:worker", auth.Grant{Space: "project:a", Access: auth.Work})
	for _, thread := range []string{`{}`, `{"visibility":"private","assistant":"coder"}`} {
		path := "/v1/spaces/project:a/threads/" + owner.createThread("project:a", thread) + "/runs"
		var r aRun
		var c claimed
		owner.want(201, &r, "POST", path, `{"prompt":"hi","agent":"coder"}`)
		worker.want(200, &c, "POST", claimPath, `{"spaces":["project:a"],"agent":"coder"}`)
		finish := path + "/" + r.ID + "/finish"
		const end = `{"status":"succeeded","usage":{"m":{"input_tokens":1},"n":{"input_tokens":2}}}`
		fence := []string{"Thole-Fence", c.Token}
		worker.sameTwice(&r, "POST", finish, end, append(fence, "Idempotency-Key", "end-"+r.ID)...)
		if r.Status != "succeeded" {
			t.Errorf("%s: the run is %+v", thread, r)
		}
		owner.refuse(409, "fenced", "POST", finish, end, fence...)
		owner.refuse(409, "fenced", "POST", finish, end, append(fence, "Idempotency-Key", "another")...)
		owner.refuse(422, "invalid", "POST", finish, `{"status":"failed"}`, append(fence, "Idempotency-Key", "end-"+r.ID)...)
	}
}

func TestARepeatedClaimGivesTheSameRun(t *testing.T) {
	s := serveWithTokens(t, nil)
	grants := []auth.Grant{{Space: "project:*", Access: auth.Write}}
	owner, worker := s.as("user:1", grants...), s.as("user:worker", grants...)
	start := func(space string) (run string) {
		var r aRun
		owner.want(201, &r, "POST", "/v1/spaces/"+space+"/threads/"+owner.createThread(space, nil)+"/runs", `{"prompt":"hi"}`)
		return r.ID
	}
	const body = `{"spaces":["project:a","project:b"],"worker":"coder"}`
	key := func(k string) []string { return []string{"Idempotency-Key", k} }
	worker.refuse(404, "not_found", "POST", claimPath, body, key("1")...)
	run := start("project:b")
	var c claimed
	worker.want(200, &c, "POST", claimPath, body, key("1")...)
	if c.Run.ID != run || c.Space != "project:b" || c.Request[0].Content != "hi" {
		t.Fatalf("claimed %+v, want run %s", c, run)
	}
	other := start("project:a") // in a space that is searched first
	for range 2 {
		worker.sameTwice(&c, "POST", claimPath, body, key("1")...)
		path := "/v1/spaces/project:b/threads/" + c.Run.Thread + "/runs/" + run + "/heartbeat"
		worker.want(200, nil, "POST", path, nil, "Thole-Fence", c.Token)
	}
	// A caller with another bearer token does not get the first one's secret.
	s.as("user:worker", grants...).refuse(409, "fenced", "POST", claimPath, body, key("1")...)
	worker.refuse(422, "invalid", "POST", claimPath, `{"spaces":["project:b"]}`, key("1")...)
	worker.want(200, &c, "POST", claimPath, body, key("2")...)
	if c.Run.ID != other {
		t.Errorf("under another key: claimed %s, want %s", c.Run.ID, other)
	}
	path := "/v1/spaces/project:a/threads/" + c.Run.Thread + "/runs/" + other
	worker.want(200, nil, "POST", path+"/finish", `{"status":"succeeded"}`, "Thole-Fence", c.Token)
	worker.sameTwice(&c, "POST", claimPath, body, key("2")...) // its token is no longer valid
	worker.refuse(409, "fenced", "POST", path+"/heartbeat", nil, "Thole-Fence", c.Token)
}

func TestConcurrentRepeatsOfAClaimGiveOneRun(t *testing.T) {
	s := serve(t, nil)
	for range 8 {
		s.want(201, nil, "POST", "/v1/spaces/project:a/threads/"+s.createThread("project:a", nil)+"/runs", `{"prompt":"hi"}`)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{}
	for range 8 {
		wg.Go(func() {
			var c claimed
			s.want(200, &c, "POST", claimPath, `{"spaces":["project:a"]}`, "Idempotency-Key", "k")
			mu.Lock()
			defer mu.Unlock()
			got[c.Run.ID]++
		})
	}
	wg.Wait()
	if len(got) != 1 {
		t.Errorf("claimed %v, want one", got)
	}
}

func TestAWorkerNamesItselfForARunThatNamesNoAgent(t *testing.T) {
	s := serve(t, nil)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
	for _, name := range []string{"a\u0001", string(make([]byte, 300))} {
		s.refuse(400, "invalid", "POST", claimPath, map[string]any{"spaces": []string{"project:a"}, "worker": name})
	}
	s.want(201, nil, "POST", path+"/runs", `{"prompt":"hi"}`)
	var c claimed
	s.want(200, &c, "POST", claimPath, `{"spaces":["project:a"],"worker":"night-shift"}`)
	s.want(200, nil, "POST", path+"/runs/"+c.Run.ID+"/finish", `{"status":"succeeded"}`, "Thole-Fence", c.Token)
	page, err := s.store.Space("project:a").Read(t.Context(), thole.ReadQuery{Types: []string{"run.finished"}})
	if err != nil || len(page.Events) != 1 || page.Events[0].Actor != "agent:night-shift" || c.Run.Agent != "night-shift" {
		t.Errorf("the run is %+v and was ended by %+v, %v; want night-shift", c.Run, page.Events, err)
	}
}

// gate calls its function, once, before it commits the start of a run.
type gate struct {
	*memstore.Store
	before atomic.Pointer[func()]
}

func (g *gate) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	for _, c := range batch {
		for _, e := range c.Events {
			if e.Type == "run.started" {
				if f := g.before.Swap(nil); f != nil {
					(*f)()
				}
			}
		}
	}
	return g.Store.Commit(ctx, batch)
}

func TestAClaimIsAnsweredOrRefusedWhenADrainBegins(t *testing.T) {
	g := &gate{Store: memstore.New()}
	store, err := thole.Open(t.Context(), g, &thole.Options{Concepts: rest.Concepts()})
	if err != nil {
		t.Fatal(err)
	}
	s := serveStore(t, store, nil)
	for range 2 {
		s.want(201, nil, "POST", "/v1/spaces/project:a/threads/"+s.createThread("project:a", nil)+"/runs", `{"prompt":"hi"}`)
	}
	drain := s.api.Drain
	g.before.Store(&drain)
	var c claimed
	s.want(http.StatusOK, &c, "POST", claimPath, `{"spaces":["project:a"]}`) // that claim had not returned yet
	if c.Token == "" || c.Run.Status != "running" {
		t.Errorf("claimed %+v", c)
	}
	s.refuse(http.StatusServiceUnavailable, "closed", "POST", claimPath, `{"spaces":["project:a"]}`)
}

// slowHeads answers only after the caller has stopped waiting.
type slowHeads struct{ *memstore.Store }

func (s slowHeads) Heads(ctx context.Context, spaces ...string) ([]thole.Head, error) {
	if _, waits := ctx.Deadline(); waits {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Heads(ctx, spaces...)
}

func TestAClaimThatHadNoTimeToWaitStillLooks(t *testing.T) {
	store, err := thole.Open(t.Context(), slowHeads{memstore.New()}, &thole.Options{Concepts: rest.Concepts()})
	if err != nil {
		t.Fatal(err)
	}
	s := serveStore(t, store, nil)
	const body = `{"spaces":["project:a"],"wait_seconds":0.001}`
	s.refuse(404, "not_found", "POST", claimPath, body)
	var r aRun
	s.want(201, &r, "POST", "/v1/spaces/project:a/threads/"+s.createThread("project:a", nil)+"/runs", `{"prompt":"hi"}`)
	var c claimed
	s.want(200, &c, "POST", claimPath, body)
	if c.Run.ID != r.ID {
		t.Errorf("claimed %s, want %s", c.Run.ID, r.ID)
	}
}

// Found by seed 20261122 of TestEveryAnswerIsAsTheDocumentSays.
func TestTheRequestOfAClaimedRunIsAlwaysAList(t *testing.T) {
	s := serve(t, nil)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", `{}`)
	s.want(201, nil, "POST", path+"/messages", `{"role":"user","blocks":[{"type":"text","content":"x"}]}`)
	s.want(201, nil, "POST", path+"/runs", `{"agent":"coder"}`) // answers the last message
	for range 2 {                                               // the second is a repeat
		r := s.want(200, nil, "POST", "/v1/runs/claim", `{"spaces":["project:a"],"agent":"coder"}`, "Idempotency-Key", "k")
		if !strings.Contains(string(r.body), `"request":[`) {
			t.Errorf("the request is no list: %s", r.body)
		}
	}
}

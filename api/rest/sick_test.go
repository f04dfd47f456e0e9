package rest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/router"
	"github.com/thole-dev/thole/journal"
)

func TestNoRequestStopsTheWorkersOfASpace(t *testing.T) {
	s := serveWithTokens(t, nil)
	eve := s.as("user:eve", auth.Grant{Space: "project:eve", Access: auth.Write})
	victim := s.as("user:victim", auth.Grant{Space: "project:victim", Access: auth.Write})
	worker := s.as("user:worker", auth.Grant{Space: "project:*", Access: auth.Work})
	runs := func(who *server, space string) string {
		return "/v1/spaces/" + space + "/threads/" + who.createThread(space, nil) + "/runs"
	}
	for levels := journal.MaxDepth; levels > journal.MaxDepth-16; levels-- {
		deep := strings.Repeat("[", levels) + strings.Repeat("]", levels)
		eve.do("POST", runs(eve, "project:eve"), `{"agent":"q","blocks":[{"type":"text","content":"x","meta":{"x":`+deep+`}}]}`)
	}
	var r aRun
	victim.want(201, &r, "POST", runs(victim, "project:victim"), `{"agent":"q","prompt":"help"}`)
	for range 17 {
		var c claimed
		worker.want(200, &c, "POST", claimPath, `{"spaces":["project:eve","project:victim"],"agent":"q"}`)
		if c.Run.ID == r.ID {
			return
		}
	}
	t.Error("the victim's run was not claimed")
}

// A run that can neither begin nor end is skipped, and no answer names it.
func TestARunThatCannotEndStopsNoWorkerAndIsNotNamed(t *testing.T) {
	h := hide(t)
	start := func(thread string) string {
		var r aRun
		h.owner.want(201, &r, "POST", "/v1/spaces/project:a/threads/"+thread+"/runs", `{"prompt":"x","agent":"q"}`)
		return r.ID
	}
	admin := h.as("user:root", auth.Grant{Space: "project:a", Access: auth.Admin})
	for _, head := range []string{`{"key":"thread/%s"}`, `{"key":"thread/%s","value":1}`} { // destroyed, and unreadable
		h.private = h.owner.createThread("project:a", `{"visibility":"private"}`)
		h.run = start(h.private)
		well := start(h.owner.createThread("project:a", nil))
		admin.want(201, nil, "POST", "/v1/spaces/project:a/commits", fmt.Sprintf(`{"writes":[{"key":"slot/%%/%s","value":1},`+head+`]}`, h.private, h.private))
		r := h.stranger.do("POST", claimPath, `{"spaces":["project:a"],"agent":"q"}`)
		h.shows("a claim", string(r.body))
		if r.status != 200 || !strings.Contains(string(r.body), well) {
			t.Errorf("the run that is well is not claimed: %d %s", r.status, r.body)
		}
	}
}

// without returns a store in which one space fails.
func without(t *testing.T, dead string) *thole.Store {
	gone := router.Later(thole.ErrUnavailable, func(context.Context) (journal.Backend, error) { return nil, thole.ErrUnavailable })
	b, err := router.New(router.Rule{Pattern: dead, Backend: gone}, router.Rule{Pattern: "*", Backend: memstore.New()})
	if err != nil {
		t.Fatal(err)
	}
	st, err := thole.Open(t.Context(), b, &thole.Options{Concepts: rest.Concepts(), Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestADeadSpaceHoldsUpNoClaimInAnother(t *testing.T) {
	s := serveStore(t, without(t, "user:dead"), nil)
	const body = `{"spaces":["user:dead","project:a"],"agent":"q","wait_seconds":30}`
	runs := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil) + "/runs"
	var r aRun
	s.want(201, &r, "POST", runs, `{"agent":"q","prompt":"first"}`)
	var c claimed
	s.want(200, &c, "POST", claimPath, body)
	if c.Run.ID != r.ID {
		t.Errorf("claimed %+v, want %s", c, r.ID)
	}
	s.want(200, nil, "POST", runs+"/"+r.ID+"/finish", `{"status":"succeeded"}`, "Thole-Fence", c.Token)
	late := make(chan reply, 1)
	go func() { late <- s.do("POST", claimPath, body) }()
	s.want(201, &r, "POST", runs, `{"agent":"q","prompt":"second"}`)
	if got := <-late; got.status != http.StatusOK || !strings.Contains(string(got.body), r.ID) {
		t.Errorf("a claim that waited: got %d %s, want run %s", got.status, got.body, r.ID)
	}
	s.refuse(404, "not_found", "POST", claimPath, `{"spaces":["user:dead","project:a"],"agent":"q"}`)
	s.refuse(503, "unavailable", "POST", claimPath, `{"spaces":["user:dead"],"agent":"q","wait_seconds":30}`)
	// With a key, it is not known whether an earlier try made a run there.
	s.refuse(503, "unavailable", "POST", claimPath, `{"spaces":["project:a","user:dead"],"agent":"q"}`, "Idempotency-Key", "k")
}

func TestAFinishRefusesAWrongUsage(t *testing.T) {
	s := serve(t, nil)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil) + "/runs"
	var r aRun
	s.want(201, &r, "POST", path, `{"agent":"q","prompt":"go"}`)
	var c claimed
	s.want(200, &c, "POST", claimPath, `{"spaces":["project:a"],"agent":"q"}`)
	finish, fence := path+"/"+r.ID+"/finish", []string{"Thole-Fence", c.Token}
	s.refuse(400, "invalid", "POST", finish, `{"status":"succeeded","usage":{"m":{"input_tokens":-5}}}`, fence...)
	many := map[string]any{}
	for i := range 65 {
		many[strings.Repeat("m", i+1)] = map[string]int{"input_tokens": 1}
	}
	s.refuse(413, "too_large", "POST", finish, map[string]any{"status": "succeeded", "usage": many}, fence...)
	delete(many, "m")
	s.want(200, nil, "POST", finish, map[string]any{"status": "succeeded", "usage": many}, fence...)
}

package rest_test

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/api/auth"
)

// In the queue of an owner's runs, others wait in threads that they share. What others
// read names nothing that they may not know, and the owner may end all of them.
func TestALineOfAnOwnersRunsNamesNothingToOthersAndIsTheOwners(t *testing.T) {
	s := serveWithTokens(t, nil)
	grant := auth.Grant{Space: "project:a", Access: auth.Write}
	owner, other := s.as("user:1", grant), s.as("user:2", grant)
	open := owner.createThread("project:a", `{"run_scope":"user"}`)
	private := owner.createThread("project:a", `{"run_scope":"user","visibility":"private"}`)
	var active, waiting aRun
	var c claimed
	owner.want(201, &active, "POST", threadsOfA+"/"+private+"/runs", `{"prompt":"our secret","agent":"coder"}`)
	owner.want(200, &c, "POST", claimPath, `{"spaces":["project:a"],"agent":"coder"}`)
	owner.want(201, &waiting, "POST", threadsOfA+"/"+private+"/runs", `{"prompt":"our secret","agent":"coder"}`)
	heard := func(what string, r reply, status int) {
		t.Helper()
		if r.status != status {
			t.Errorf("%s: %d %s, want %d", what, r.status, r.body, status)
		}
		for _, id := range []string{private, active.ID, waiting.ID, "secret"} {
			if strings.Contains(string(r.body), id) {
				t.Errorf("%s names %s: %s", what, id, r.body)
			}
		}
	}
	runs := threadsOfA + "/" + open + "/runs"
	heard("reject", other.do("POST", runs, `{"prompt":"x","policy":"reject"}`), 409)
	for range 16 {
		heard("a run", other.do("POST", runs, `{"prompt":"x"}`), 201)
	}
	for _, policy := range []string{"enqueue", "interrupt", "rollback"} {
		heard("a full line", other.do("POST", runs, `{"prompt":"x","policy":"`+policy+`"}`), 413)
	}
	heard("the queue", other.do("GET", threadsOfA+"/"+open+"/queue", nil), 200)
	var queue struct{ Items []aRun }
	owner.want(200, &queue, "GET", threadsOfA+"/"+private+"/queue", nil)
	if len(queue.Items) != 17 || queue.Items[0].ID != waiting.ID {
		t.Fatalf("the owner sees %d runs, %+v first; want 17, %s first", len(queue.Items), queue.Items[0], waiting.ID)
	}
	for i, r := range queue.Items[1:] {
		if i%2 == 0 {
			owner.want(204, nil, "DELETE", threadsOfA+"/"+open+"/queue/"+r.ID, nil)
		} else {
			owner.want(200, nil, "POST", runs+"/"+r.ID+"/cancel", nil)
		}
	}
	owner.want(200, &queue, "GET", threadsOfA+"/"+open+"/queue", nil)
	if len(queue.Items) != 1 {
		t.Errorf("after the owner took them out %d runs wait, want its own", len(queue.Items))
	}
}

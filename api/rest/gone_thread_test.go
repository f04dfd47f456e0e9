package rest_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
)

func TestNobodyButAnAdminWritesForAThreadThatHasEnded(t *testing.T) {
	s := serveWithTokens(t, nil)
	const space = "/v1/spaces/project:a"
	grant := auth.Grant{Space: "project:a", Access: auth.Write}
	owner, other := s.as("user:1", grant), s.as("user:2", grant)
	admin := s.as("user:3", auth.Grant{Space: "project:a", Access: auth.Admin})
	for _, visibility := range []string{"space", "private"} {
		id := owner.createThread("project:a", `{"visibility":"`+visibility+`"}`)
		plan := [2]string{"/decisions", `{"action":"x","thread":"` + id + `"}`}
		requests := [][2]string{
			plan,
			{"/events", `{"type":"x.y","stream":"app/thread/` + id + `"}`},
			{"/commits", `{"events":[{"type":"x.y","stream":"app/thread/` + id + `/notes"}]}`},
			{"/commits", `{"writes":[{"key":"app/thread/` + id + `/k","value":1}]}`},
			{"/commits", `{"checks":[{"key":"app/thread/` + id + `/none"}],"events":[{"type":"x.y"}]}`},
		}
		var before []reply
		for _, r := range requests {
			before = append(before, owner.want(201, nil, "POST", space+r[0], r[1], "Idempotency-Key", r[1]))
		}
		owner.want(204, nil, "DELETE", space+"/threads/"+id, nil)
		for i, r := range requests {
			owner.refuse(404, "not_found", "POST", space+r[0], r[1])
			other.refuse(404, "not_found", "POST", space+r[0], r[1])
			if r == plan {
				admin.refuse(404, "not_found", "POST", space+r[0], r[1])
			} else {
				admin.want(201, nil, "POST", space+r[0], r[1])
			}
			if got := owner.want(201, nil, "POST", space+r[0], r[1], "Idempotency-Key", r[1]); !bytes.Equal(got.body, before[i].body) {
				t.Errorf("a repeat of %s %s: got %s, want %s", r[0], r[1], got.body, before[i].body)
			}
		}
	}
	admin.refuse(404, "not_found", "POST", space+"/decisions", `{"action":"x","thread":"`+thole.NewID("thrd")+`"}`)
}

// The events of a thread that has ended stay readable; a mistyped id must not look the same.
func TestNobodyReadsOfAThreadThatNeverWas(t *testing.T) {
	s := serve(t, nil) // without tokens everyone is an admin
	const threads = "/v1/spaces/project:a/threads/"
	ended := s.createThread("project:a", nil)
	s.want(204, nil, "DELETE", threads+ended, nil)
	if r := s.want(200, nil, "GET", threads+ended+"/events", nil); !strings.Contains(string(r.body), "thread.destroyed") {
		t.Errorf("the events of a thread that has ended: %s", r.body)
	}
	s.want(200, nil, "GET", threads+ended+"/runs", nil)
	never := thole.NewID("thrd")
	s.refuse(404, "not_found", "GET", threads+never+"/events", nil)
	s.refuse(404, "not_found", "GET", threads+never+"/events", nil, "Accept", "text/event-stream")
	s.refuse(404, "not_found", "GET", threads+never+"/runs", nil)
}

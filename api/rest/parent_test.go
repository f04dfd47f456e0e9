package rest_test

import (
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
)

const threadsOfA = "/v1/spaces/project:a/threads"

// family is a running run of an owner, and the other callers in the space.
type family struct {
	*server
	owner, stranger, worker *server // worker has the grant work
	thread, run             string
	fence                   []string
}

func (f *family) of(visibility string) {
	f.t.Helper()
	f.thread = f.owner.createThread("project:a", `{"visibility":"`+visibility+`"}`)
	var r aRun
	var c claimed
	f.owner.want(201, &r, "POST", threadsOfA+"/"+f.thread+"/runs", `{"prompt":"go","agent":"coder"}`)
	f.worker.want(200, &c, "POST", claimPath, `{"spaces":["project:a"],"agent":"coder"}`)
	f.run, f.fence = r.ID, []string{"Thole-Fence", c.Token}
}

func serveFamily(t *testing.T) *family {
	s := serveWithTokens(t, nil)
	grant := auth.Grant{Space: "project:a", Access: auth.Write}
	return &family{server: s, owner: s.as("user:1", grant), stranger: s.as("user:2", grant),
		worker: s.as("agent:coder", auth.Grant{Space: "project:a", Access: auth.Work})}
}

func TestASubAgentOverHTTPIsBelowItsParent(t *testing.T) {
	f := serveFamily(t)
	for _, visibility := range []string{"space", "private"} {
		f.of(visibility)
		below, start := `{"parent":"`+f.thread+`"}`, `{"prompt":"sub","agent":"sub","parent":"`+f.run+`"}`
		var made struct {
			ID, Parent, Owner, Visibility string
			Depth                         int
		}
		var child aRun
		var c claimed
		f.worker.want(201, &made, "POST", threadsOfA, below, f.fence...)
		if made.Parent != f.thread || made.Owner != "user:1" || made.Visibility != "private" || made.Depth != 1 {
			t.Errorf("%s: made %+v", visibility, made)
		}
		f.worker.want(201, &child, "POST", threadsOfA+"/"+made.ID+"/runs", start, f.fence...)
		f.worker.want(200, &c, "POST", claimPath, `{"spaces":["project:a"],"agent":"sub"}`)
		if c.Run.ID != child.ID {
			t.Fatalf("%s: claimed %s, want %s", visibility, c.Run.ID, child.ID)
		}
		// When the parent is private, the thread is for those who may read the
		// parent.
		f.owner.want(200, nil, "GET", threadsOfA+"/"+made.ID+"/runs/"+child.ID, nil)
		f.worker.want(200, nil, "GET", threadsOfA+"/"+made.ID+"/messages", nil, f.fence...)
		f.stranger.refuse(404, "not_found", "GET", threadsOfA+"/"+made.ID, nil)
		f.worker.refuse(404, "not_found", "GET", threadsOfA+"/"+made.ID, nil)
		// The sub-agent's own worker makes a sub-agent for it.
		var deeper struct{ ID string }
		own := []string{"Thole-Fence", c.Token}
		f.worker.want(201, &deeper, "POST", threadsOfA, `{"parent":"`+made.ID+`"}`, own...)
		var grandchild aRun
		f.worker.want(201, &grandchild, "POST", threadsOfA+"/"+deeper.ID+"/runs", `{"prompt":"deeper","agent":"sub","parent":"`+child.ID+`"}`, own...)
		// It is cancelled and destroyed with the parent.
		f.owner.want(200, nil, "POST", threadsOfA+"/"+f.thread+"/runs/"+f.run+"/cancel", nil)
		for thread, id := range map[string]string{made.ID: child.ID, deeper.ID: grandchild.ID} {
			var r struct{ Cancel *struct{ Cause string } }
			if f.owner.want(200, &r, "GET", threadsOfA+"/"+thread+"/runs/"+id, nil); r.Cancel == nil {
				t.Errorf("%s: the parent was cancelled, run %s below it was not", visibility, id)
			}
		}
		f.owner.want(204, nil, "DELETE", threadsOfA+"/"+f.thread, nil)
		for _, id := range []string{made.ID, deeper.ID} {
			f.owner.refuse(404, "not_found", "GET", threadsOfA+"/"+id, nil)
		}
		f.worker.refuse(404, "not_found", "POST", threadsOfA+"/"+made.ID+"/turns/"+c.Turn+"/blocks", `{"type":"text","content":"still here"}`, own...)
		f.owner.refuse(404, "not_found", "POST", threadsOfA, below)
	}
}

func TestNobodyTiesARunToAParentWithoutARightToIt(t *testing.T) {
	f := serveFamily(t)
	writer := f.as("agent:coder", auth.Grant{Space: "project:a", Access: auth.Write})
	type answer struct {
		status int
		code   string
	}
	for visibility, told := range map[string]struct{ below, elsewhere answer }{
		"space":   {answer{403, "forbidden"}, answer{400, "invalid"}},
		"private": {answer{404, "not_found"}, answer{404, "not_found"}},
	} {
		f.of(visibility)
		below, start := `{"parent":"`+f.thread+`"}`, `{"prompt":"sub","agent":"sub","parent":"`+f.run+`"}`
		for _, who := range []*server{f.stranger, f.worker} { // without the fence
			who.refuse(told.below.status, told.below.code, "POST", threadsOfA, below)
		}
		writer.refuse(told.below.status, told.below.code, "POST", threadsOfA, below, f.fence...) // without the grant
		mine := f.stranger.createThread("project:a", nil)
		f.stranger.refuse(told.elsewhere.status, told.elsewhere.code, "POST", threadsOfA+"/"+mine+"/runs", start)
		f.worker.refuse(400, "invalid", "POST", threadsOfA+"/"+mine+"/runs", start, f.fence...)
		f.owner.refuse(400, "invalid", "POST", threadsOfA+"/"+f.thread+"/runs", start) // the parent's own
		f.worker.refuse(404, "not_found", "POST", threadsOfA, `{"parent":"`+thole.NewID("thrd")+`"}`, f.fence...)
		f.owner.refuse(400, "invalid", "POST", threadsOfA, `{"parent":"`+f.run+`"}`)
		f.owner.refuse(400, "invalid", "POST", threadsOfA, `{"parent":"`+f.thread+`","visibility":"space"}`)
		f.owner.refuse(400, "invalid", "POST", threadsOfA, `{"parent":"`+f.thread+`","run_scope":"user"}`)

		var made struct{ ID string }
		f.worker.want(201, &made, "POST", threadsOfA, below, f.fence...)
		runs := threadsOfA + "/" + made.ID + "/runs"
		f.stranger.refuse(404, "not_found", "POST", runs, start)
		f.worker.refuse(404, "not_found", "POST", runs, start)
		f.worker.refuse(403, "forbidden", "POST", runs, `{"prompt":"of no parent"}`, f.fence...)
		f.worker.want(200, nil, "POST", threadsOfA+"/"+f.thread+"/runs/"+f.run+"/finish", `{"status":"succeeded"}`, f.fence...)
		f.worker.refuse(409, "fenced", "POST", runs, start, f.fence...) // the parent has ended
		f.owner.refuse(409, "conflict", "POST", runs, start)
	}
}

func TestAGrantToWorkInAThreadIsOneForItsSubAgents(t *testing.T) {
	f := serveFamily(t)
	thread := f.owner.createThread("project:a", `{"visibility":"private"}`)
	f.worker = f.as("agent:coder", auth.Grant{Space: "project:a", Access: auth.Write}, auth.Grant{Space: "project:a", Access: auth.Work, Threads: []string{thread}})
	var r, child aRun
	var c claimed
	f.owner.want(201, &r, "POST", threadsOfA+"/"+thread+"/runs", `{"prompt":"go","agent":"coder"}`)
	f.worker.want(200, &c, "POST", claimPath, `{"spaces":["project:a"],"agent":"coder"}`)
	var made struct{ ID string }
	f.worker.want(201, &made, "POST", threadsOfA, `{"parent":"`+thread+`"}`, "Thole-Fence", c.Token)
	f.worker.want(201, &child, "POST", threadsOfA+"/"+made.ID+"/runs", `{"prompt":"sub","agent":"sub","parent":"`+r.ID+`"}`, "Thole-Fence", c.Token)
	f.worker.want(200, &c, "POST", claimPath, `{"spaces":["project:a"],"agent":"sub"}`)
	f.worker.want(200, nil, "POST", threadsOfA+"/"+made.ID+"/runs/"+child.ID+"/finish", `{"status":"succeeded"}`, "Thole-Fence", c.Token)
}

package rest_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/thole-dev/thole/api/auth"
)

// guess returns the token that an outsider can construct who knows or guesses the
// lease's key and where it was acquired.
func (s *server) guess(space, lease string) string {
	s.t.Helper()
	rec, err := s.store.Space(space).Get(s.t.Context(), lease+"/owner")
	if err != nil || !rec.Exists() {
		s.t.Fatalf("lease %s: %v", lease, err)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(rec.Key + "@" + rec.Version.String()))
}

func TestAGuessedFenceProvesNothing(t *testing.T) {
	s := serveWithTokens(t, nil)
	const space, agent = "/v1/spaces/project:a", `"agent":"coder"`
	owner := s.as("user:1", auth.Grant{Space: "project:a", Access: auth.Write})
	start := func(thread string) (path, token string) {
		path = space + "/threads/" + owner.createThread("project:a", thread)
		owner.want(201, nil, "POST", path+"/runs", `{"prompt":"our secret",`+agent+`}`)
		var c claimed
		owner.want(200, &c, "POST", claimPath, `{"spaces":["project:a"],`+agent+`}`)
		return path + "/runs/" + c.Run.ID, s.guess("project:a", "run/"+c.Run.ID)
	}
	private, privateToken := start(`{"visibility":"private"}`)
	public, publicToken := start(`{}`)
	owner.want(201, nil, "POST", space+"/locks", `{"name":"f","owner":"a"}`)
	lockToken := s.guess("project:a", "lock/f")
	secret := "." + strings.Repeat("A", 22)

	for _, access := range []auth.Access{auth.Read, auth.Write} {
		stranger := s.as("user:2", auth.Grant{Space: "project:a", Access: access})
		refuse := func(status int, code, method, path, body, token string) {
			t.Helper()
			if access == auth.Read && method != "GET" {
				status, code = 403, "forbidden"
			}
			stranger.refuse(status, code, method, path, body, "Thole-Fence", token)
			stranger.refuse(status, code, method, path, body, "Thole-Fence", token+secret)
		}
		thread := private[:strings.Index(private, "/runs/")]
		refuse(404, "not_found", "GET", thread+"/messages", "", privateToken)
		refuse(404, "not_found", "GET", private, "", privateToken)
		refuse(404, "not_found", "POST", private+"/heartbeat", "", privateToken)
		refuse(404, "not_found", "POST", private+"/finish", `{"status":"succeeded"}`, privateToken)
		refuse(409, "fenced", "POST", public+"/heartbeat", "", publicToken)
		refuse(409, "fenced", "POST", public+"/finish", `{"status":"succeeded"}`, publicToken)
		refuse(409, "fenced", "PUT", space+"/kv/n/k", `{"data":1}`, lockToken)
		refuse(409, "fenced", "PUT", space+"/locks/f", `{"ttl":60}`, lockToken)
		refuse(409, "fenced", "DELETE", space+"/locks/f", "", lockToken)
	}
	for _, path := range []string{private, public} {
		var r aRun
		if owner.want(200, &r, "GET", path, nil); r.Status != "running" {
			t.Errorf("%s is %s", path, r.Status)
		}
	}
}

func TestAFenceGivesNoMoreThanTheGrantOfItsHolder(t *testing.T) {
	s := serveWithTokens(t, nil)
	as := func(actor string, access auth.Access) *server {
		return s.as(actor, auth.Grant{Space: "project:a", Access: access})
	}
	owner := as("user:1", auth.Write)
	thread := "/v1/spaces/project:a/threads/" + owner.createThread("project:a", `{"visibility":"private"}`)
	owner.want(201, nil, "POST", thread+"/runs", `{"prompt":"hi","agent":"coder"}`)
	var c claimed
	owner.want(200, &c, "POST", claimPath, `{"spaces":["project:a"],"agent":"coder"}`)
	fence := []string{"Thole-Fence", c.Token}
	messages, beat := thread+"/messages", thread+"/runs/"+c.Run.ID+"/heartbeat"
	block := thread + "/turns/" + c.Turn + "/blocks"

	reader, writer, worker := as("user:2", auth.Read), as("user:3", auth.Write), as("agent:coder", auth.Work)
	reader.refuse(404, "not_found", "GET", messages, nil, fence...)
	reader.refuse(403, "forbidden", "POST", beat, nil, fence...)
	writer.refuse(404, "not_found", "GET", messages, nil, fence...)
	writer.refuse(404, "not_found", "POST", beat, nil, fence...)
	writer.refuse(404, "not_found", "POST", block, `{"type":"text","content":"x"}`, fence...)
	worker.refuse(404, "not_found", "GET", messages, nil)
	worker.want(200, nil, "GET", messages, nil, fence...)
	worker.want(200, nil, "GET", thread+"/events", nil, fence...)
	worker.want(200, nil, "POST", beat, nil, fence...)
	worker.want(201, nil, "POST", block, `{"type":"text","content":"x"}`, fence...)
	narrow := s.as("agent:coder", auth.Grant{Space: "project:a", Access: auth.Work, Threads: []string{thread[strings.LastIndex(thread, "/")+1:]}})
	narrow.want(200, nil, "GET", messages, nil, fence...)
}

func TestARunInAPrivateThreadIsThereForItsOwnersWorkersOnly(t *testing.T) {
	s := serveWithTokens(t, nil)
	owner := s.as("user:1", auth.Grant{Space: "project:a", Access: auth.Write})
	stranger := s.as("user:2", auth.Grant{Space: "project:a", Access: auth.Write})
	const space, claim = "/v1/spaces/project:a/threads/", `{"spaces":["project:a"]}`
	start := func(thread string) string {
		var r aRun
		owner.want(201, &r, "POST", space+owner.createThread("project:a", thread)+"/runs", `{"prompt":"our secret"}`)
		return r.ID
	}
	take := func(who *server, want string) {
		t.Helper()
		var c claimed
		if who.want(200, &c, "POST", claimPath, claim); c.Run.ID != want {
			t.Errorf("claimed %s, want %s", c.Run.ID, want)
		}
	}
	private := start(`{"visibility":"private"}`)
	nothing := stranger.refuse(404, "not_found", "POST", claimPath, claim)
	public := start(`{}`)
	take(stranger, public)
	if again := stranger.refuse(404, "not_found", "POST", claimPath, claim); again.Detail != nothing.Detail {
		t.Errorf("%q and %q tell the difference", again.Detail, nothing.Detail)
	}
	take(owner, private)
	take2 := func(access auth.Access) {
		t.Helper()
		run := start(`{"visibility":"private"}`)
		take(s.as("agent:coder", auth.Grant{Space: "project:a", Access: access}), run)
	}
	take2(auth.Work)
	take2(auth.Admin)
}

func TestARepeatUnderAnotherFenceIsAnotherRequest(t *testing.T) {
	s := serve(t, nil)
	const locks, kv = "/v1/spaces/project:a/locks", "/v1/spaces/project:a/kv/n/k"
	var a, b struct{ Token string }
	s.want(201, &a, "POST", locks, `{"name":"a"}`)
	s.want(201, &b, "POST", locks, `{"name":"b"}`)
	put := func(token string) []string { return []string{"Thole-Fence", token, "Idempotency-Key", "k"} }
	s.want(200, nil, "PUT", kv, `{"data":1}`, put(a.Token)...)
	s.want(204, nil, "DELETE", locks+"/a", nil, "Thole-Fence", a.Token)
	s.want(204, nil, "DELETE", locks+"/a", nil, "Thole-Fence", a.Token) // nobody holds it, which is no error
	s.want(200, nil, "PUT", kv, `{"data":1}`, put(a.Token)...)          // the repeat of a request during the lease
	s.refuse(422, "invalid", "PUT", kv, `{"data":1}`, put(b.Token)...)
	forged := strings.Split(a.Token, ".")[0] + "." + strings.Split(b.Token, ".")[1]
	s.refuse(422, "invalid", "PUT", kv, `{"data":1}`, put(forged)...)
	s.refuse(409, "fenced", "PUT", kv, `{"data":1}`, "Thole-Fence", forged)
}

func TestAStaleFenceStopsEveryOperation(t *testing.T) {
	s := serve(t, nil)
	const space = "/v1/spaces/project:a"
	var held struct{ Token string }
	s.want(201, &held, "POST", space+"/locks", `{"name":"f"}`)
	s.want(200, nil, "PUT", space+"/kv/n/k", `{"data":1}`)
	s.want(204, nil, "DELETE", space+"/locks/f", nil, "Thole-Fence", held.Token)
	s.refuse(409, "fenced", "PUT", space+"/kv/n/k", `{"data":1}`, "Thole-Fence", held.Token)
	s.refuse(409, "fenced", "DELETE", space+"/kv/n/absent", nil, "Thole-Fence", held.Token)
	s.refuse(409, "fenced", "GET", space+"/kv/n/k", nil, "Thole-Fence", held.Token)
	s.refuse(409, "fenced", "DELETE", space, nil, "Thole-Fence", held.Token)
}

// A grant to work in one thread opens only that thread, whatever else the token may do
// in the space.
func TestAGrantToWorkInOneThreadClaimsNoRunOfAnotherPrivateOne(t *testing.T) {
	s := serveWithTokens(t, nil)
	owner := s.as("user:1", auth.Grant{Space: "project:a", Access: auth.Write})
	const threads, claim = "/v1/spaces/project:a/threads/", `{"spaces":["project:a"]}`
	mine := owner.createThread("project:a", `{"visibility":"private"}`)
	other := owner.createThread("project:a", `{"visibility":"private"}`)
	worker := s.as("agent:w", auth.Grant{Space: "project:a", Access: auth.Write},
		auth.Grant{Space: "project:a", Access: auth.Work, Threads: []string{mine}})
	var queued aRun
	owner.want(201, &queued, "POST", threads+other+"/runs", `{"prompt":"our secret"}`)
	worker.refuse(404, "not_found", "GET", threads+other, nil)
	worker.refuse(404, "not_found", "POST", claimPath, claim)
	owner.want(201, &queued, "POST", threads+mine+"/runs", `{"prompt":"for you"}`)
	var got struct{ Run aRun }
	worker.want(200, &got, "POST", claimPath, claim)
	if got.Run.ID != queued.ID {
		t.Errorf("claimed %s; want %s, the run of its own thread", got.Run.ID, queued.ID)
	}
}

package rest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/lock"
)

// Hidden items do not count for a page.
func TestWhatIsHiddenKeepsNothingVisibleOffAPage(t *testing.T) {
	s := serveWithTokens(t, nil)
	grant := auth.Grant{Space: "project:a", Access: auth.Write}
	owner, stranger := s.as("user:1", grant), s.as("user:2", grant)
	const space = "/v1/spaces/project:a"
	private := owner.createThread("project:a", `{"visibility":"private"}`)
	plan := func(action string, standing bool, thread string) {
		t.Helper()
		owner.want(201, nil, "POST", space+"/decisions", map[string]any{"action": action, "standing": standing, "thread": thread})
	}
	plan("the first order", true, "")
	for i := range 3 {
		plan(fmt.Sprintf("visible %d", i), false, "")
	}
	for range 45 {
		plan("our plan", false, private)
		plan("our order", true, private)
	}
	var index struct{ Standing, Recent []decision.Decision }
	stranger.want(200, &index, "GET", space+"/decisions/index?limit=2", nil)
	if len(index.Standing) != 1 || len(index.Recent) != 2 || index.Recent[0].Action != "visible 2" || index.Recent[1].Action != "visible 1" {
		t.Errorf("the index is %+v, want one order and the last two visible decisions", index)
	}
	owner.want(200, &index, "GET", space+"/decisions/index?limit=2", nil)
	if len(index.Standing) != 46 || len(index.Recent) != 2 || index.Recent[0].Action != "our plan" {
		t.Errorf("the owner's index is %+v", index)
	}
	var events struct {
		Items      []struct{ Data decision.Decision }
		NextCursor string `json:"next_cursor"`
	}
	var seen []string
	for cursor := ""; ; cursor = events.NextCursor {
		stranger.want(200, &events, "GET", space+"/events?order=desc&types=decision.planned&limit=2"+after(cursor), nil)
		for _, e := range events.Items {
			seen = append(seen, e.Data.Action)
		}
		if events.NextCursor == "" {
			break
		}
		if len(events.Items) != 2 {
			t.Errorf("a page that is not the last has %d events, want 2", len(events.Items))
		}
	}
	if got := strings.Join(seen, ", "); got != "visible 2, visible 1, visible 0, the first order" {
		t.Errorf("read %s", got)
	}
}

// What everybody may read must not name what is hidden, in capitals either.
func TestWhatIsPublicDoesNotNameWhatIsHidden(t *testing.T) {
	h := hide(t)
	const space = "/v1/spaces/project:a"
	loud := strings.ToUpper(h.run)
	if _, err := lock.In(h.store.Space("project:a").As("user:1")).Acquire(t.Context(), "l", &lock.Options{Owner: "of-" + loud}); err != nil {
		t.Fatal(err)
	}
	var public decision.Decision
	h.owner.want(201, &public, "POST", space+"/decisions", map[string]any{
		"action": "after " + h.run, "decision": loud, "rationale": "because of " + h.private, "refs": []string{h.run, h.private, loud}, "run": "worker-of-" + h.run,
	})
	h.owner.want(201, nil, "POST", space+"/decisions", map[string]any{"action": "as " + h.run, "standing": true})
	paths := []string{"/locks", "/locks/l", "/decisions", "/decisions/index", "/decisions/" + public.ID, "/events"}
	for _, path := range paths {
		r := h.stranger.want(200, nil, "GET", space+path, nil)
		for _, id := range []string{h.run, h.private} {
			if strings.Contains(strings.ToLower(string(r.body)), id) {
				t.Errorf("%s names %s: %.900s", path, id, r.body)
			}
		}
		r = h.owner.want(200, nil, "GET", space+path, nil)
		if !strings.Contains(strings.ToLower(string(r.body)), h.run) {
			t.Errorf("%s does not name the run to its owner: %.900s", path, r.body)
		}
	}
	r := h.stranger.want(200, nil, "POST", space+"/decisions/"+public.ID+"/outcome", `{"outcome":"done"}`)
	if strings.Contains(strings.ToLower(string(r.body)), h.run) {
		t.Errorf("the outcome's answer names the run: %s", r.body)
	}
	r = h.stranger.do("POST", space+"/locks", `{"name":"l"}`)
	if r.status != 409 || strings.Contains(strings.ToLower(string(r.body)), h.run) {
		t.Errorf("a lock that is held: %d %s", r.status, r.body)
	}
}

// The last frame of a stream says what run.finished says, and no more.
func TestTheLastFrameOfAStreamDoesNotNameTheHiddenRunThatIsNext(t *testing.T) {
	s := serveWithTokens(t, nil)
	grant := auth.Grant{Space: "project:a", Access: auth.Write}
	owner, stranger := s.as("user:1", grant), s.as("user:2", grant)
	const threads = "/v1/spaces/project:a/threads/"
	public := owner.createThread("project:a", `{"run_scope":"user"}`)
	private := owner.createThread("project:a", `{"run_scope":"user","visibility":"private"}`)
	w, _ := stranger.startStreaming(threads+public+"/runs", `{"prompt":"x"}`, "Authorization", "Bearer "+stranger.token)
	var c claimed
	stranger.want(200, &c, "POST", claimPath, `{"spaces":["project:a"]}`)
	var next aRun
	owner.want(201, &next, "POST", threads+private+"/runs", `{"prompt":"y"}`)
	stranger.want(200, nil, "POST", threads+public+"/runs/"+c.Run.ID+"/finish", `{"status":"succeeded"}`, "Thole-Fence", c.Token)
	for f := w.mustNext(); ; f = w.mustNext() {
		if strings.Contains(f.raw, next.ID) {
			t.Errorf("%s names the private run: %s", f.event, f.raw)
		}
		if f.event == "complete" {
			break
		}
	}
}

package rest_test

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
)

// A record app/thread would be above what applications keep for all threads, and its
// end would delete that and disclose it to the space.
func TestNoWriterEndsWhatIsKeptForAPrivateThread(t *testing.T) {
	h := hide(t)
	const space = "/v1/spaces/project:a"
	admin := h.as("user:3", auth.Grant{Space: "project:a", Access: auth.Admin})
	h.owner.want(201, nil, "POST", space+"/commits", `{"writes":[{"key":"app/thread/`+h.private+`/notes","value":"our secret"}]}`)
	for _, name := range []string{"app/thread", "app/thread/", "app/thread/x", "app/thread/x/y"} {
		for what, body := range map[string]string{
			"a write of":  `{"writes":[{"key":"` + name + `","value":1,"expires_at":"2020-01-01T00:00:00Z","notify":true}]}`,
			"an event in": `{"events":[{"type":"x.y","stream":"` + name + `"}]}`,
			"a check of":  `{"checks":[{"key":"` + name + `"}],"events":[{"type":"x.y"}]}`,
		} {
			if r := h.stranger.do("POST", space+"/commits", body); r.status != 400 {
				t.Errorf("%s %s: %d %s", what, name, r.status, r.body)
			}
			if r := admin.do("POST", space+"/commits", body); r.status != 400 && what != "a check of" {
				t.Errorf("%s %s by an admin: %d %s", what, name, r.status, r.body)
			}
		}
	}
	if err := h.store.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	rec, err := h.store.Space("project:a").Get(t.Context(), "app/thread/"+h.private+"/notes")
	if err != nil || !rec.Exists() {
		t.Errorf("the notes: got %v, %v", rec, err)
	}
	// Only admins see what an earlier version emitted in app/thread.
	if _, err := h.store.Backend().Commit(t.Context(), []thole.Commit{{
		Space: "project:a", Now: h.store.Now(), Events: []thole.Event{{Stream: "app/thread", Type: "app.expired", Data: []byte(`"our secret"`)}},
	}}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/events", "/events?stream=app/thread"} {
		h.shows(path, string(h.stranger.want(200, nil, "GET", space+path, nil).body))
		if path != "/events" {
			continue
		}
		if r := admin.want(200, nil, "GET", space+path+"?types=app.expired", nil); !strings.Contains(string(r.body), "our secret") {
			t.Errorf("an admin reads %s: %s", path, r.body)
		}
	}
}

// Nobody said to which thread such an event belongs.
func TestEventsThatNoConceptDeclaresAreForAdmins(t *testing.T) {
	s := serveWithTokens(t, nil)
	admin := s.as("user:3", auth.Grant{Space: "project:a", Access: auth.Admin})
	reader := s.as("user:2", auth.Grant{Space: "project:a", Access: auth.Read})
	const events = "/v1/spaces/project:a/events"
	heard := reader.watch(events + "?after=")
	for _, stream := range []string{"notes", "decision", "thread", "kv/n"} {
		admin.want(201, nil, "POST", events, `{"type":"x.y","stream":"`+stream+`","data":"unclear"}`)
	}
	admin.want(201, nil, "POST", events, `{"type":"x.y","data":"clear"}`)
	if f := heard.mustNext(); !strings.Contains(f.raw, `"clear"`) {
		t.Errorf("a reader hears first %s", f.raw)
	}
	for _, query := range []string{"", "?stream=notes", "?stream=decision", "?stream=kv/n"} {
		if r := reader.want(200, nil, "GET", events+query, nil); strings.Contains(string(r.body), "unclear") {
			t.Errorf("%q shows %s", query, r.body)
		}
		if r := admin.want(200, nil, "GET", events+query, nil); !strings.Contains(string(r.body), "unclear") {
			t.Errorf("%q hides from an admin what there is: %s", query, r.body)
		}
	}
}

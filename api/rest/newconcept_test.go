package rest_test

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/state/statetest/reminder"
)

// serveReminders serves a concept that was added as CONTRIBUTING.md says: its folder is
// state/statetest/reminder, its file in this package reminder_test.go, and both lists have
// one more line: here, and in rest.ServingReminders.
func serveReminders(t *testing.T) *server {
	t.Helper()
	concepts := append(rest.Concepts(),
		reminder.Concept,
	)
	store, err := thole.Open(t.Context(), memstore.New(), &thole.Options{Concepts: concepts})
	if err != nil {
		t.Fatal(err)
	}
	api := rest.ServingReminders(store, &rest.Options{Auth: auth.NewTokens(store), Logger: slog.New(slog.DiscardHandler)})
	s := &server{t: t, store: store, api: api, http: httptest.NewServer(api)}
	t.Cleanup(func() {
		api.Drain()
		s.http.Close()
		store.Close()
	})
	return s
}

const reminders = "/v1/spaces/project:a/reminders"

// remind sets a reminder in a thread.
func (s *server) remind(thread, text string) (r reminder.Reminder) {
	s.t.Helper()
	s.want(201, &r, "POST", "/v1/spaces/project:a/threads/"+thread+"/reminders", map[string]any{"text": text, "after": 60})
	return r
}

func TestANewConceptIsServed(t *testing.T) {
	s := serveReminders(t).as("user:1", auth.Grant{Space: "project:a", Access: auth.Write})
	thread := s.createThread("project:a", nil)
	path := "/v1/spaces/project:a/threads/" + thread + "/reminders"
	body := map[string]any{"text": "first", "after": 60}
	first := s.want(201, nil, "POST", path, body, "Idempotency-Key", "k")
	again := s.want(201, nil, "POST", path, body, "Idempotency-Key", "k")
	if string(first.body) != string(again.body) {
		t.Errorf("a repeat got %s, want %s", again.body, first.body)
	}
	s.want(200, nil, "GET", first.header.Get("Location"), nil)
	s.remind(thread, "second")
	third := s.remind(thread, "third")
	var texts []string
	for cursor := ""; ; {
		var page struct {
			Items []reminder.Reminder
			Next  string `json:"next_cursor"`
		}
		s.want(200, &page, "GET", reminders+"?limit=2"+after(cursor), nil)
		for _, r := range page.Items {
			texts = append(texts, r.Text)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if got := strings.Join(texts, " "); got != "first second third" {
		t.Errorf("the list is %q", got)
	}
	s.want(204, nil, "DELETE", reminders+"/"+third.ID, nil)
	s.refuse(404, "not_found", "GET", reminders+"/"+third.ID, nil)
	if p := s.refuse(400, "invalid", "POST", path, `{"text":"x","after":0}`); p.Field != "/after" {
		t.Errorf("a mistake in the body is reported as %+v", p)
	}
	s.refuse(404, "not_found", "POST", "/v1/spaces/project:a/threads/thrd_"+strings.Repeat("0", 32)+"/reminders", body)
	w := s.watch("/v1/spaces/project:a/events?after=&types=reminder.*")
	for _, want := range []string{"set", "set", "set", "cleared"} {
		if f := w.mustNext(); f.event != "reminder."+want {
			t.Errorf("the watch received %s, want reminder.%s", f.event, want)
		}
	}
	s.refuse(403, "forbidden", "POST", "/v1/spaces/project:a/events", `{"type":"reminder.set"}`)
	s.want(201, nil, "POST", "/v1/spaces/project:a/events", `{"type":"app.reminded"}`)
}

func TestANewConceptIsDocumentedAndTyped(t *testing.T) {
	s := serveReminders(t)
	var doc struct {
		Tags  []struct{ Name string }
		Paths map[string]map[string]struct {
			ID   string `json:"operationId"`
			Tags []string
		}
		Components struct {
			Schemas map[string]struct {
				OneOf []struct {
					Ref string `json:"$ref"`
				}
				Properties map[string]struct {
					Const string
					OneOf []struct {
						Ref string `json:"$ref"`
					}
				}
			}
		}
	}
	s.want(200, &doc, "GET", "/openapi.json", nil)
	const path = "/v1/spaces/{space}/threads/{thread}/reminders"
	if op := doc.Paths[path]["post"]; op.ID != "setReminder" || len(op.Tags) != 1 || op.Tags[0] != "reminders" || doc.Tags[len(doc.Tags)-1].Name != "reminders" {
		t.Errorf("POST %s is documented as %+v, the tags as %+v", path, op, doc.Tags)
	}
	for typ, name := range map[string]string{"reminder.set": "ReminderSetEvent", "reminder.cleared": "ReminderClearedEvent", "reminder.due": "ReminderDueEvent"} {
		e := doc.Components.Schemas[name]
		if e.Properties["type"].Const != typ || e.Properties["source"].Const != "thole" || len(e.Properties["data"].OneOf) != 2 || e.Properties["data"].OneOf[0].Ref == "" {
			t.Errorf("the schema of %s is %+v", typ, e)
		}
		listed := false
		for _, one := range doc.Components.Schemas["Event"].OneOf {
			listed = listed || strings.HasSuffix(one.Ref, "/"+name)
		}
		if !listed {
			t.Errorf("an event cannot be %s", name)
		}
	}
	table := rest.EventTables(s.store.Concepts())
	for _, want := range []string{"## Reminder\n", "Stream: `thread/{thread}`", "| `reminder.due` | `id text` |"} {
		if !strings.Contains(table, want) {
			t.Errorf("docs/events.md would lack %q", want)
		}
	}
}

func TestWhatANewConceptKeepsInAPrivateThreadIsHidden(t *testing.T) {
	s := serveReminders(t)
	grant := auth.Grant{Space: "project:a", Access: auth.Write}
	owner, stranger := s.as("user:1", grant), s.as("user:2", grant)
	r := owner.remind(owner.createThread("project:a", `{"visibility":"private"}`), "our secret")
	public := owner.remind(owner.createThread("project:a", nil), "for all")
	owner.want(201, nil, "POST", "/v1/spaces/project:a/locks", map[string]string{"name": "l", "owner": r.ID})
	owner.want(201, nil, "POST", "/v1/spaces/project:a/locks", map[string]string{"name": "m", "owner": public.ID})

	const space = "/v1/spaces/project:a"
	for _, path := range []string{"/reminders", "/events", "/events?types=reminder.*", "/events?stream=thread/" + r.Thread, "/locks"} {
		if text := string(owner.want(200, nil, "GET", space+path, nil).body); !strings.Contains(text, r.ID) {
			t.Errorf("%s does not show it to its owner: %s", path, text)
		}
		if text := string(stranger.want(200, nil, "GET", space+path, nil).body); strings.Contains(text, r.ID) || strings.Contains(text, r.Text) {
			t.Errorf("%s shows it: %s", path, text)
		}
	}
	locks := string(stranger.want(200, nil, "GET", space+"/locks", nil).body)
	if !strings.Contains(locks, "rem_"+strings.Repeat("0", 32)) || !strings.Contains(locks, public.ID) {
		t.Errorf("of two ids the hidden one is not zeros: %s", locks)
	}
	hidden := stranger.refuse(404, "not_found", "GET", reminders+"/"+r.ID, nil)
	absent := stranger.refuse(404, "not_found", "GET", reminders+"/rem_"+strings.Repeat("0", 32), nil)
	if strings.ReplaceAll(hidden.Detail, r.ID, "") != strings.ReplaceAll(absent.Detail, "rem_"+strings.Repeat("0", 32), "") {
		t.Errorf("hidden is %q, absent %q", hidden.Detail, absent.Detail)
	}
	stranger.refuse(404, "not_found", "DELETE", reminders+"/"+r.ID, nil)
	stranger.refuse(404, "not_found", "POST", space+"/threads/"+r.Thread+"/reminders", `{"text":"x","after":1}`)
	stranger.want(200, nil, "GET", reminders+"/"+public.ID, nil)
}

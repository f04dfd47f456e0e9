package rest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// hiding is a space with a private thread, a run in it and what they left, and a
// stranger who may write in the space.
type hiding struct {
	*server
	owner, stranger *server
	private         string // the thread
	public          string
	run             string // in the private thread
	turn, block     string
	decision        string // with the run as its cause, without a thread
	inThread        string // a decision in the private thread
}

func hide(t *testing.T) *hiding {
	t.Helper()
	s := serveWithTokens(t, nil)
	grant := auth.Grant{Space: "project:a", Access: auth.Write}
	h := &hiding{server: s, owner: s.as("user:1", grant), stranger: s.as("user:2", grant)}
	h.private = h.owner.createThread("project:a", `{"visibility":"private"}`)
	h.public = h.owner.createThread("project:a", `{"run_scope":"user"}`)
	sp := s.store.Space("project:a").As("user:1")
	rs := run.In(sp, nil)
	r, err := rs.Start(t.Context(), h.private, run.Request{Prompt: "our secret", Agent: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	worker, err := rs.Claim(t.Context(), &run.ClaimOptions{Agent: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	h.run, h.turn = r.ID, worker.Turn()
	if h.block, err = worker.Block(t.Context(), thread.TextBlock("x")); err != nil {
		t.Fatal(err)
	}
	// Events in the space name it.
	work := worker.Space()
	if _, err := lock.In(work).Acquire(t.Context(), "src/app.ts", &lock.Options{Owner: r.ID + "/" + h.block}); err != nil {
		t.Fatal(err)
	}
	d, err := decision.In(work).Plan(t.Context(), decision.Plan{Action: "our plan", Run: r.ID})
	if err != nil {
		t.Fatal(err)
	}
	h.decision = d.ID
	if d, err = decision.In(work).Plan(t.Context(), decision.Plan{Action: "our plan", Thread: h.private}); err != nil {
		t.Fatal(err)
	}
	h.inThread = d.ID
	if _, err := file.In(work).Changed(t.Context(), "src/app.ts", "", strings.Repeat("a", 64), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.In(work).Set(t.Context(), "n", "k", 1, nil); err != nil {
		t.Fatal(err)
	}
	return h
}

// ids returns the ids that the stranger must not read.
func (h *hiding) ids() []string {
	return []string{h.private, h.run, h.turn, h.decision, h.inThread, "our secret", "our plan"}
}

func (h *hiding) shows(what, text string) {
	h.t.Helper()
	for _, id := range h.ids() {
		if strings.Contains(text, id) {
			h.t.Errorf("%s shows %s: %.600s", what, id, text)
		}
	}
}

func TestNothingInASpaceNamesAPrivateThreadOrItsRun(t *testing.T) {
	h := hide(t)
	const space = "/v1/spaces/project:a"
	for _, path := range []string{"/events", "/events?order=desc", "/events?stream=decision", "/events?stream=thread/" + h.private, "/threads", "/locks", "/locks/src/app.ts",
		"/decisions", "/decisions?incomplete=true", "/decisions?run=" + h.run, "/decisions?thread=" + h.private, "/decisions/index", "/files", "/file-history/src/app.ts", "/documents", "/kv/n"} {
		r := h.stranger.want(200, nil, "GET", space+path, nil)
		h.shows(path, string(r.body))
	}
	for name, body := range map[string]string{"exclusive": `{"name":"src/app.ts"}`, "again": `{"name":"src/app.ts","again":true,"owner":"` + h.run + `/x"}`} {
		r := h.stranger.do("POST", space+"/locks", body)
		if name == "exclusive" {
			h.shows("a lock that is held", string(r.body))
		}
		if r.status != 409 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	w := h.stranger.watch(space + "/events?after=")
	h.owner.want(201, nil, "POST", space+"/events", `{"type":"app.last"}`)
	for f := w.mustNext(); f.data.Type != "app.last"; f = w.mustNext() {
		h.shows("a watch", f.raw)
	}
	// The owner sees everything.
	r := h.owner.want(200, nil, "GET", space+"/locks/src/app.ts", nil)
	if !strings.Contains(string(r.body), h.run) {
		t.Errorf("the owner does not see who has the lock: %s", r.body)
	}
	h.owner.want(200, nil, "GET", space+"/decisions/"+h.decision, nil)
	r = h.owner.want(200, nil, "GET", space+"/decisions", nil)
	if !strings.Contains(string(r.body), h.decision) {
		t.Errorf("the owner does not see the decision: %s", r.body)
	}
}

// Nothing discloses what a run waits for behind a private one.
func TestWhatWaitsBehindAPrivateRunDoesNotNameIt(t *testing.T) {
	s := serveWithTokens(t, nil)
	grant := auth.Grant{Space: "project:a", Access: auth.Write}
	owner, stranger := s.as("user:1", grant), s.as("user:2", grant)
	const threads = "/v1/spaces/project:a/threads/"
	private := owner.createThread("project:a", `{"visibility":"private","run_scope":"user"}`)
	public := owner.createThread("project:a", `{"run_scope":"user"}`)
	var first, second aRun
	owner.want(201, &first, "POST", threads+private+"/runs", `{"prompt":"x"}`)
	check := func(r reply) {
		t.Helper()
		if text := string(r.body); strings.Contains(text, first.ID) || strings.Contains(text, private) {
			t.Errorf("shows the private run: %s", text)
		}
	}
	refused := stranger.do("POST", threads+public+"/runs", `{"prompt":"x","policy":"reject"}`)
	if refused.status != 409 {
		t.Errorf("reject: %d %s", refused.status, refused.body)
	}
	check(refused)
	check(stranger.want(201, &second, "POST", threads+public+"/runs", `{"prompt":"x"}`))
	check(stranger.want(200, nil, "GET", threads+public+"/queue", nil))
	owner.want(200, nil, "POST", threads+private+"/runs/"+first.ID+"/cancel", nil)
	var c claimed
	stranger.want(200, &c, "POST", claimPath, `{"spaces":["project:a"]}`)
	if c.Run.ID != second.ID {
		t.Errorf("claimed %s, want %s", c.Run.ID, second.ID)
	}
	owner.want(201, nil, "POST", threads+private+"/runs", `{"prompt":"y"}`)
	check(stranger.want(200, nil, "POST", threads+public+"/runs/"+second.ID+"/finish", `{"status":"succeeded"}`, "Thole-Fence", c.Token))
	events := stranger.want(200, nil, "GET", threads+public+"/events", nil)
	check(events)
	var list struct {
		Items []struct {
			Type string
			Data struct{ Next string }
		}
	}
	if err := json.Unmarshal(events.body, &list); err != nil {
		t.Fatal(err)
	}
	last := list.Items[len(list.Items)-1]
	if zeros := "run_" + strings.Repeat("0", 32); last.Type != "run.finished" || last.Data.Next != zeros {
		t.Errorf("the last event is %+v, want run.finished with next %s", last, zeros)
	}
}

// For every operation that takes a thread, a run or a decision, the answer about a
// private one is the same as about one that does not exist, except for the names in the
// request.
func TestWhatIsPrivateAnswersAsWhatDoesNotExist(t *testing.T) {
	h := hide(t)
	none := func(id string) string {
		kind, digits, _ := strings.Cut(id, "_")
		return kind + "_" + digits[:28] + "0000"
	}
	nobody := *h
	nobody.private, nobody.run, nobody.turn, nobody.block, nobody.decision, nobody.inThread =
		none(h.private), none(h.run), none(h.turn), none(h.block), none(h.decision), none(h.inThread)
	guess := []string{"Thole-Fence", h.guess("project:a", "run/"+h.run)}
	requests := func(h *hiding) []string {
		const space = "/v1/spaces/project:a"
		public := space + "/threads/" + h.public
		runs := `POST ` + public + `/runs `
		all := []string{
			"GET " + space + "/decisions/" + h.decision, "GET " + space + "/decisions/" + h.inThread,
			"POST " + space + "/decisions/" + h.decision + `/outcome {"outcome":"done"}`,
			"POST " + space + "/decisions/" + h.inThread + `/outcome {"outcome":"done"}`,
			"POST " + space + `/decisions {"action":"x","run":"` + h.run + `"}`,
			"POST " + space + `/decisions {"action":"x","thread":"` + h.private + `"}`,
			"GET " + space + "/decisions?run=" + h.run, "GET " + space + "/decisions?thread=" + h.private,
			"GET " + space + "/events?limit=1&stream=thread/" + h.private,
			"POST " + space + `/events {"type":"app.x","stream":"app/thread/` + h.private + `/x"}`,
			"POST " + space + `/commits {"writes":[{"key":"app/thread/` + h.private + `/x","value":1}]}`,
			runs + `{"prompt":"x","parent":"` + h.run + `"}`, runs + `{"prompt":"x","resumed_from":"` + h.run + `"}`,
			"GET " + public + "/runs/" + h.run, "POST " + public + "/runs/" + h.run + "/cancel",
			"POST " + public + "/runs/" + h.run + `/signals {"name":"x"}`,
			"POST " + public + "/runs/" + h.run + `/finish {"status":"failed"}`,
			"PATCH " + public + "/queue/" + h.run + ` {"prompt":"x"}`, "DELETE " + public + "/queue/" + h.run,
		}
		for op := range h.operations("{thread}") {
			method, path, _ := strings.Cut(op, " ")
			path = strings.NewReplacer("{space}", "project:a", "{thread}", h.private, "{run}", h.run,
				"{turn}", h.turn, "{block}", h.block, "{todo}", "todo_1").Replace(path)
			all = append(all, method+" "+path)
			if method != "GET" {
				all = append(all, method+" "+path+" {}")
			}
		}
		slices.Sort(all)
		return all
	}
	hidden, absent := requests(h), requests(&nobody)
	if len(hidden) < 60 {
		t.Fatalf("only %d requests", len(hidden))
	}
	for _, access := range []auth.Access{auth.Read, auth.Write, auth.Work} {
		stranger := h.as("user:2", auth.Grant{Space: "project:a", Access: access})
		for i := range hidden {
			kinds := [][]string{nil, guess}
			if strings.Contains(hidden[i], "/threads/"+h.private) { // elsewhere it would not end
				kinds = append(kinds, []string{"Accept", "text/event-stream"})
			}
			for _, headers := range kinds {
				got, want := stranger.ask(hidden[i], headers), stranger.ask(absent[i], headers)
				for _, id := range []struct{ is, was string }{{nobody.private, h.private}, {nobody.run, h.run}, {nobody.turn, h.turn},
					{nobody.block, h.block}, {nobody.decision, h.decision}, {nobody.inThread, h.inThread}} {
					want = strings.ReplaceAll(want, id.is, id.was)
				}
				if got != want {
					t.Errorf("%s token, %s %v:\nis private:     %s\ndoes not exist: %s", access, hidden[i], headers, got, want)
				}
			}
		}
	}
}

// operations returns the operations of the OpenAPI document whose path contains part.
func (s *server) operations(part string) map[string]bool {
	s.t.Helper()
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	s.want(200, &doc, "GET", "/openapi.json", nil)
	all := map[string]bool{}
	for path, methods := range doc.Paths {
		for method := range methods {
			if strings.Contains(path, part) {
				all[strings.ToUpper(method)+" "+path] = true
			}
		}
	}
	return all
}

var (
	aSession  = regexp.MustCompile(`sess_[0-9a-f]{32}`)
	aPosition = regexp.MustCompile(`[0-9a-f]{12}-[0-9]{16}`)
)

// ask sends "METHOD PATH BODY" and returns the answer without what differs from request
// to request.
func (s *server) ask(request string, headers []string) string {
	method, rest, _ := strings.Cut(request, " ")
	path, body, _ := strings.Cut(rest, " ")
	var b any
	if body != "" {
		b = body
	}
	r := s.do(method, path, b, headers...)
	h := r.header.Clone()
	for _, name := range []string{"Date", "X-Request-Id", "Content-Length"} {
		h.Del(name)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d %s", r.status, aSession.ReplaceAllString(string(r.body), "sess"))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(&text, " | %s: %s", name, h.Get(name))
	}
	return aPosition.ReplaceAllString(text.String(), "position")
}

// It lists keys of records of the kernel and of all threads.
func TestAnAdoptionIsForAdmins(t *testing.T) {
	h := hide(t)
	admin := h.as("user:root", auth.Grant{Space: "project:a", Access: auth.Admin})
	const events = "/v1/spaces/project:a/events"
	watched := h.stranger.watch(events + "?after=")
	admin.want(201, nil, "POST", events, `{"type":"space.adopted","stream":"space","data":{"reasons":[],"changed":["thread/`+h.private+`","idem/our key"],"total":2}}`)
	admin.want(201, nil, "POST", events, `{"type":"app.last"}`)
	for _, query := range []string{"", "?stream=space", "?types=space.adopted"} {
		if r := h.stranger.want(200, nil, "GET", events+query, nil); strings.Contains(string(r.body), "our key") || strings.Contains(string(r.body), h.private) {
			t.Errorf("%q shows %s", query, r.body)
		}
		if r := admin.want(200, nil, "GET", events+query, nil); !strings.Contains(string(r.body), "our key") {
			t.Errorf("%q hides it from an admin: %s", query, r.body)
		}
	}
	for f := watched.mustNext(); f.data.Type != "app.last"; f = watched.mustNext() {
		if strings.Contains(f.raw, "our key") {
			t.Errorf("a watch shows %s", f.raw)
		}
	}
}

// An event shows of a decision what GET shows of it.
func TestTheEventsOfADecisionShowWhatProgramsActOn(t *testing.T) {
	h := hide(t)
	const space = "/v1/spaces/project:a"
	text := `"of ` + h.run + `"`
	var d decision.Decision
	h.owner.want(201, &d, "POST", space+"/decisions", `{"action":`+text+`,"input":`+text+`}`)
	h.owner.want(200, nil, "POST", space+"/decisions/"+d.ID+"/outcome", `{"outcome":"done","result":`+text+`}`)
	h.stranger.want(200, &d, "GET", space+"/decisions/"+d.ID, nil)
	var events struct {
		Items []struct{ Data decision.Decision }
	}
	h.stranger.want(200, &events, "GET", space+"/events?stream=decision", nil)
	if len(events.Items) != 2 {
		t.Fatalf("%d events", len(events.Items))
	}
	planned, resolved := events.Items[0].Data, events.Items[1].Data
	if string(d.Input) != text || string(planned.Input) != text || string(d.Result) != text || string(resolved.Result) != text {
		t.Errorf("GET: %s, %s; the events: %s, %s; want %s", d.Input, d.Result, planned.Input, resolved.Result, text)
	}
	if strings.Contains(d.Action, h.run) || planned.Action != d.Action {
		t.Errorf("GET: %s; the event: %s", d.Action, planned.Action)
	}
}

// As GET shows a signal's name and a summary, so do the events.
func TestTheEventsOfAThreadShowWhatProgramsActOn(t *testing.T) {
	h := hide(t)
	worker := h.as("user:1", auth.Grant{Space: "project:*", Access: auth.Work}, auth.Grant{Space: "project:a", Access: auth.Write})
	path := "/v1/spaces/project:a/threads/" + h.public
	var c claimed
	worker.want(201, nil, "POST", path+"/runs", `{"prompt":"x"}`)
	worker.want(200, &c, "POST", "/v1/runs/claim", `{"spaces":["project:a"]}`)
	one, fence := path+"/runs/"+c.Run.ID, []string{"Thole-Fence", c.Token}
	worker.want(200, nil, "POST", one+"/wait", `{"name":"done `+h.run+`","wait_seconds":1}`, fence...)
	h.owner.want(204, nil, "POST", one+"/signals", `{"name":"done `+h.run+`"}`)
	worker.want(200, nil, "POST", one+"/finish", `{"status":"succeeded"}`, fence...)
	var th struct {
		LastTurn string `json:"last_turn"`
	}
	h.stranger.want(200, &th, "GET", path, nil)
	h.owner.want(204, nil, "POST", path+"/compact", `{"upto":"`+th.LastTurn+`","summary":"of `+h.run+`"}`)
	var events struct {
		Items []struct {
			Type string
			Data json.RawMessage
		}
	}
	h.stranger.want(200, &events, "GET", path+"/events?limit=1000", nil)
	seen := 0
	for _, e := range events.Items {
		if e.Type != "run.waiting" && e.Type != "run.signalled" && e.Type != "thread.compacted" {
			continue
		}
		if seen++; !strings.Contains(string(e.Data), h.run) {
			t.Errorf("%s: %s, want %s", e.Type, e.Data, h.run)
		}
	}
	if seen != 3 {
		t.Errorf("%d events, want 3", seen)
	}
}

func TestAnEscapedIDIsMasked(t *testing.T) {
	h := hide(t)
	admin := h.as("user:3", auth.Grant{Space: "project:a", Access: auth.Admin})
	admin.want(201, nil, "POST", "/v1/spaces/project:a/events", `{"type":"lock.acquired","stream":"lock/x","data":{"owner":"\u0072un\u005f`+h.run[4:]+`"}}`)
	if r := h.stranger.want(200, nil, "GET", "/v1/spaces/project:a/events?stream=lock/x", nil); strings.Contains(string(r.body), h.run[4:]) || !strings.Contains(string(r.body), "run_000") {
		t.Errorf("the event shows the run: %s", r.body)
	}
}

package rest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
)

// holder is a column of the authority table: a kind of caller.
type holder struct {
	name   string
	about  string
	actor  string
	grants []auth.Grant // with <open>, <open-busy> … as threads; nil: no token
}

const tableSpace = "project:a"

func holders() []holder {
	on := func(space string, a auth.Access, threads ...string) []auth.Grant {
		return []auth.Grant{{Space: space, Access: a, Threads: threads}}
	}
	open, private := []string{"<open>", "<open-busy>"}, []string{"<private>", "<private-busy>"}
	return []holder{
		{"none", "no token", "", nil},
		{"read", "read on project:a", "user:other", on(tableSpace, auth.Read)},
		{"write", "write on project:a", "user:other", on(tableSpace, auth.Write)},
		{"work", "work on project:a", "user:other", on(tableSpace, auth.Work)},
		{"admin", "admin on project:a", "user:other", on(tableSpace, auth.Admin)},
		{"b.admin", "admin on project:b, another space", "user:other", on("project:b", auth.Admin)},
		{"*read", "read on *", "user:other", on("*", auth.Read)},
		{"*write", "write on *", "user:other", on("*", auth.Write)},
		{"*admin", "admin on *", "user:other", on("*", auth.Admin)},
		{"t.read", "read, narrowed to the open threads", "user:other", on(tableSpace, auth.Read, open...)},
		{"t.write", "write, narrowed to the open threads", "user:other", on(tableSpace, auth.Write, open...)},
		{"p.write", "write, narrowed to the private threads of somebody else", "user:other", on(tableSpace, auth.Write, private...)},
		{"write+t", "write on project:a, and work narrowed to the open threads", "user:other",
			append(on(tableSpace, auth.Write), on(tableSpace, auth.Work, open...)...)},
		{"write+p", "write on project:a, and work narrowed to the private threads of somebody else", "user:other",
			append(on(tableSpace, auth.Write), on(tableSpace, auth.Work, append(private, "<private-wait>")...)...)},
		{"o.read", "read on project:a; owner of the threads", "user:owner", on(tableSpace, auth.Read)},
		{"o.write", "write on project:a; owner of the threads", "user:owner", on(tableSpace, auth.Write)},
	}
}

// Texts that show whose content an answer contains.
const (
	markPrivate = "whispered" // in the private threads
	markOther   = "elsewhere" // in the space, outside the open threads
	markKernel  = "tok_"      // in records that only the kernel writes
)

// world is a server whose store contains everything that the requests need.
type world struct {
	t     *testing.T
	store *thole.Store
	api   *rest.API
	http  *httptest.Server
	token map[string]string // by the holder's name
	ids   map[string]string // what <name> stands for in a request

	touched bool // a request changed more than it should need to
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := thole.Open(t.Context(), memstore.New(), &thole.Options{Concepts: rest.Concepts()})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: store, token: make(map[string]string), ids: make(map[string]string)}
	w.api = rest.New(store, &rest.Options{
		Auth: auth.NewTokens(store), Logger: slog.New(slog.DiscardHandler), Heartbeat: 20 * time.Millisecond,
	})
	w.http = httptest.NewServer(w.api)
	w.mint("setup", holder{actor: "user:owner", grants: []auth.Grant{{Space: "*", Access: auth.Admin}}})
	w.fill()
	for _, h := range holders() {
		if h.grants != nil {
			w.mint(h.name, h)
		}
	}
	return w
}

func (w *world) close() {
	w.api.Drain()
	w.http.Close()
	w.store.Close()
}

func (w *world) mint(name string, h holder) {
	w.t.Helper()
	grants := slices.Clone(h.grants)
	for i, g := range grants {
		grants[i].Threads = nil
		for _, id := range g.Threads {
			grants[i].Threads = append(grants[i].Threads, w.resolve(id))
		}
	}
	secret, _, err := auth.Create(w.t.Context(), w.store, auth.Token{Actor: h.actor, Grants: grants})
	if err != nil {
		w.t.Fatal(err)
	}
	w.token[name] = secret
}

// fill makes the objects.
func (w *world) fill() {
	for _, kind := range []string{"open", "private", "else"} {
		mark := map[string]string{"open": "said", "private": markPrivate, "else": markOther}[kind]
		w.quietThread(kind, mark)
		w.busyThread(kind+"-busy", mark)
		w.quietThread(kind+"-wait", mark)
		w.make("POST", "/v1/spaces/"+tableSpace+"/threads/<"+kind+"-wait>/runs", `{"prompt":"x","agent":"`+kind+`-agent"}`)
	}
	w.ids["instance"] = w.make("GET", "/v1/backend", "")["instance"].(string)
	const absent = "00000000000000000000000000000000"
	for name, prefix := range map[string]string{"thread": "thrd", "run": "run", "queued": "run", "turn": "turn", "block": "blk", "child": "thrd", "decision": "dec", "run-decision": "dec"} {
		for _, kind := range []string{"absent", "absent-busy"} {
			w.ids[kind+"."+name] = prefix + "_" + absent
		}
	}
	for _, kind := range []string{"absent", "absent-busy"} {
		w.ids[kind], w.ids[kind+".todo"] = "thrd_"+absent, "one"
		w.ids[kind+".fence"] = w.ids["else-busy.fence"]
	}
	w.ids["elsefence"] = w.ids["else-busy.fence"]

	content := []byte("content " + markOther)
	sum := sha256.Sum256(content)
	w.ids["blob"], w.ids["hash"] = string(content), hex.EncodeToString(sum[:])
	here := "/v1/spaces/" + tableSpace
	w.make("PUT", here+"/kv/n/k", `{"data":"<mark>"}`, "mark", markOther)
	w.make("PUT", here+"/documents/d", `{"value":{"n":1,"s":"<mark>"}}`, "mark", markOther)
	w.make("POST", here+"/files/a.txt", `{"before_hash":"","after_hash":"<hash>"}`)
	w.make("PUT", here+"/blobs/<hash>", `<blob>`)
	w.ids["lock"] = w.make("POST", here+"/locks", `{"name":"l"}`)["token"].(string)
	w.ids["space.decision"] = w.make("POST", here+"/decisions", `{"action":"<mark>"}`, "mark", markOther)["id"].(string)
	w.make("POST", here+"/events", `{"type":"x.y","data":"<mark>"}`, "mark", markOther)
	w.make("PUT", "/v1/spaces/project:b/kv/n/k", `{"data":"<mark>"}`, "mark", markOther)
	for _, kind := range []string{"open", "private"} {
		w.make("POST", here+"/events", `{"type":"x.y","data":"<mark>","stream":"app/thread/<`+kind+`>/notes"}`, "mark", map[string]string{"open": "said", "private": markPrivate}[kind])
	}
}

// quietThread has a turn that has ended, a state, a todo and a decision.
func (w *world) quietThread(kind, mark string) {
	visibility := "space"
	if strings.HasPrefix(kind, "private") {
		visibility = "private"
	}
	in := func(format string) string { return strings.ReplaceAll(format, "<mark>", mark) }
	id := w.make("POST", "/v1/spaces/"+tableSpace+"/threads", fmt.Sprintf(in(`{"visibility":%q,"title":"<mark>"}`), visibility))["id"].(string)
	w.ids[kind], w.ids[kind+".thread"] = id, id
	path := "/v1/spaces/" + tableSpace + "/threads/" + id
	w.ids[kind+".turn"] = w.make("POST", path+"/turns", in(`{"request":[{"type":"text","content":"<mark>"}],"response":[{"type":"text","content":"<mark>"}]}`))["id"].(string)
	w.make("PUT", path+"/state", in(`{"value":{"n":1,"s":"<mark>"}}`))
	w.make("PUT", path+"/todos", in(`{"items":[{"id":"one","content":"<mark>"}]}`))
	w.ids[kind+".todo"] = "one"
	w.ids[kind+".decision"] = w.make("POST", "/v1/spaces/"+tableSpace+"/decisions", fmt.Sprintf(in(`{"action":"<mark>","thread":%q}`), id))["id"].(string)
}

// busyThread has a running run, with a block, a signal and a decision, and a waiting
// one.
func (w *world) busyThread(kind, mark string) {
	w.quietThread(kind, mark)
	path := "/v1/spaces/" + tableSpace + "/threads/" + w.ids[kind]
	in := func(format string) string { return strings.ReplaceAll(format, "<mark>", mark) }
	run := w.make("POST", path+"/runs", in(`{"prompt":"<mark>","agent":"working"}`))["id"].(string)
	claim := w.make("POST", "/v1/runs/claim", `{"spaces":["`+tableSpace+`"],"agent":"working"}`)
	w.ids[kind+".run"], w.ids[kind+".turn"], w.ids[kind+".fence"] = run, claim["turn"].(string), claim["token"].(string)
	w.ids["f"] = w.ids[kind+".fence"]
	w.ids[kind+".block"] = w.make("POST", path+"/turns/"+w.ids[kind+".turn"]+"/blocks", `{"type":"tool","tool":{"name":"t"}}`)["id"].(string)
	w.make("POST", path+"/runs/"+run+"/signals", in(`{"name":"go","data":"<mark>"}`))
	w.ids[kind+".run-decision"] = w.make("POST", "/v1/spaces/"+tableSpace+"/decisions", in(`{"action":"<mark>","run":"`+run+`"}`))["id"].(string)
	w.ids[kind+".child"] = w.make("POST", "/v1/spaces/"+tableSpace+"/threads", `{"parent":"`+w.ids[kind]+`"}`)["id"].(string)
	w.ids[kind+".queued"] = w.make("POST", path+"/runs", in(`{"prompt":"<mark>","agent":"waiting","policy":"enqueue"}`))["id"].(string)
	w.ids["f"] = ""
}

// make sends a request that must succeed, without a network, and returns the answer. It
// is sent under the fence <f>, if there is one.
func (w *world) make(method, path, body string, pairs ...string) map[string]any {
	w.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		body = strings.ReplaceAll(body, "<"+pairs[i]+">", pairs[i+1])
	}
	req := httptest.NewRequest(method, w.resolve(path), strings.NewReader(w.resolve(body)))
	req.Header.Set("Authorization", "Bearer "+w.token["setup"])
	if f := w.ids["f"]; f != "" && strings.HasSuffix(path, "/blocks") {
		req.Header.Set("Thole-Fence", f)
	}
	rec := httptest.NewRecorder()
	w.api.ServeHTTP(rec, req)
	if rec.Code >= 300 {
		w.t.Fatalf("%s %s: %d %s", method, path, rec.Code, rec.Body)
	}
	var v map[string]any
	json.Unmarshal(rec.Body.Bytes(), &v) // after a 204 there is nothing
	return v
}

// resolve replaces each <name> by what it stands for.
func (w *world) resolve(s string) string {
	for strings.Contains(s, "<") {
		begin := strings.Index(s, "<")
		end := begin + strings.Index(s[begin:], ">")
		value, ok := w.ids[s[begin+1:end]]
		if !ok {
			w.t.Fatalf("there is no %s in the world: see fill", s[begin:end+1])
		}
		s = s[:begin] + value + s[end+1:]
	}
	return s
}

// ask sends a request as a holder and reads the answer; of an event stream, it reads
// what had happened before the request. It reports whether the store was changed.
func (w *world) ask(r *request, holder string) (got reply, changed bool) {
	w.t.Helper()
	before := w.heads()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	body := []byte(w.resolve(r.body))
	if r.message != nil {
		body = r.message(w)
	}
	path := w.resolve(r.path)
	if strings.Contains(path, "{") {
		w.t.Fatalf("%s: nothing stands for a name in the path %s", r.row(), path)
	}
	req, err := http.NewRequestWithContext(ctx, r.method(), w.http.URL+path, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if token := w.token[holder]; token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if r.stream {
		req.Header.Set("Accept", "text/event-stream")
	}
	for i := 0; i < len(r.headers); i += 2 {
		if v := w.resolve(r.headers[i+1]); v != "" {
			req.Header.Set(r.headers[i], v)
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.t.Fatalf("%s as %s: %v", r.op, holder, err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		changed = w.changedSince(before)
		return reply{resp.StatusCode, resp.Header, w.listen(resp.Body)}, changed
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatalf("%s as %s: %v", r.op, holder, err)
	}
	return reply{resp.StatusCode, resp.Header, data}, w.changedSince(before)
}

const markEnd = "the-end" // in the last events of everything that a holder may watch

// listen reads an event stream up to an event that happens now. If the holder does not
// receive it, listen reads for ten heartbeats.
func (w *world) listen(body io.Reader) []byte {
	w.t.Helper()
	w.touched = true
	for _, space := range []string{tableSpace, "global"} {
		w.make("POST", "/v1/spaces/"+space+"/events", `{"type":"x.y","data":"`+markEnd+`"}`)
	}
	for _, thread := range []string{"open", "private"} {
		w.make("PATCH", "/v1/spaces/"+tableSpace+"/threads/<"+thread+">", `{"title":"`+markEnd+`"}`)
	}
	var all []byte
	part := make([]byte, 64<<10)
	for {
		n, err := body.Read(part)
		all = append(all, part[:n]...)
		idle := bytes.Count(all, []byte(": heartbeat\n")) >= 10
		if err != nil || idle || bytes.Contains(all, []byte(": hello\n")) || bytes.Contains(all, []byte(markEnd)) {
			return all
		}
	}
}

// heads returns the last position of each journal.
func (w *world) heads() map[string]thole.Position {
	w.t.Helper()
	names, err := w.store.Spaces(w.t.Context(), thole.SpacesQuery{})
	if err != nil {
		w.t.Fatal(err)
	}
	heads, err := w.store.Backend().Heads(w.t.Context(), names...)
	if err != nil {
		w.t.Fatal(err)
	}
	at := make(map[string]thole.Position)
	for _, h := range heads {
		at[h.Space] = h.Last
	}
	return at
}

func (w *world) changedSince(before map[string]thole.Position) bool {
	return !maps.Equal(before, w.heads())
}

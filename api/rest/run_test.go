package rest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// aRun is a run as clients see it.
type aRun struct {
	ID      string          `json:"id"`
	Thread  string          `json:"thread"`
	Agent   string          `json:"agent"`
	Status  string          `json:"status"`
	Options json.RawMessage `json:"options"`
	Cancel  *struct{ Cause string }
	Items   []aRun `json:"items"`
	Slot    string `json:"slot"`
}

// claimed is what a worker gets.
type claimed struct {
	Space   string
	Run     aRun
	Turn    string
	Token   string
	Request []struct{ Content string }
}

func TestAWorkerInAnyLanguageCanRunARun(t *testing.T) {
	s := serve(t, nil)
	id := s.createThread("project:a", `{"assistant":"coder"}`)
	path := "/v1/spaces/project:a/threads/" + id
	w := s.watch(path + "/events")
	s.refuse(404, "not_found", "POST", "/v1/runs/claim", `{"spaces":["project:a"],"agent":"coder"}`)

	got := make(chan claimed)
	go func() {
		var c claimed
		r := s.do("POST", "/v1/runs/claim", `{"spaces":["project:a","project:b"],"agent":"coder","wait_seconds":20}`)
		json.Unmarshal(r.body, &c)
		got <- c
	}()
	var r aRun
	s.want(201, &r, "POST", path+"/runs", `{"prompt":"make it blue","chat_history":[{"role":"user","content":"x"}],"file_structure":{"src":["a.ts"]}}`)
	if !strings.Contains(string(r.Options), `"file_structure":"{\"src\":[\"a.ts\"]}"`) || r.Slot != "" {
		t.Errorf("options %s, slot %q", r.Options, r.Slot)
	}
	c := <-got
	if c.Run.ID != r.ID || c.Space != "project:a" || c.Turn == "" || c.Token == "" || c.Request[0].Content != "make it blue" {
		t.Fatalf("claimed %+v", c)
	}
	fence := []string{"Thole-Fence", c.Token}
	blocks, one := path+"/turns/"+c.Turn+"/blocks", path+"/runs/"+r.ID
	s.want(200, &r, "POST", one+"/heartbeat", nil, fence...)
	s.refuse(400, "invalid", "POST", one+"/heartbeat", nil)
	const block = "blk_0000000000000000000000000000000a"
	s.want(204, nil, "PATCH", blocks+"/"+block, `{"offset":0,"text":"It is "}`, fence...)
	s.want(204, nil, "PATCH", blocks+"/"+block, `{"offset":6,"text":"blue."}`, fence...)
	s.refuse(409, "conflict", "PATCH", blocks+"/"+block, `{"offset":6,"text":"blue."}`, fence...)
	var tool struct{ ID string }
	s.want(201, &tool, "POST", blocks, `{"type":"tool","tool":{"name":"Edit","input":{"path":"a.css"}}}`, fence...)
	s.want(204, nil, "PATCH", blocks+"/"+tool.ID, `{"status":"done","result":"ok"}`, fence...)
	s.refuse(409, "conflict", "PATCH", blocks+"/"+tool.ID, `{"status":"error","result":"late"}`, fence...)
	s.refuse(400, "invalid", "PATCH", blocks+"/"+tool.ID, `{}`, fence...)
	s.want(200, &r, "POST", one+"/finish", `{"status":"succeeded","usage":{"m":{"input_tokens":1,"output_tokens":2}}}`, fence...)
	if r.Status != "succeeded" {
		t.Errorf("finished run is %+v", r)
	}
	s.refuse(409, "fenced", "POST", one+"/heartbeat", nil, fence...)
	if msgs := s.want(200, nil, "GET", path+"/messages", nil); !strings.Contains(string(msgs.body), "It is blue.") {
		t.Errorf("messages: %s", msgs.body)
	}
	var types []string
	for len(types) == 0 || types[len(types)-1] != "run.finished" {
		if f := w.mustNext(); f.id != "" {
			types = append(types, f.event)
		}
	}
	t.Log(types)
}

func TestAWorkerInAnyLanguageBeginsNothingAfterACancel(t *testing.T) {
	s := serve(t, nil)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
	s.want(201, nil, "POST", path+"/runs", `{"prompt":"x"}`)
	var c claimed
	s.want(200, &c, "POST", "/v1/runs/claim", `{"spaces":["project:a"]}`)
	fence := []string{"Thole-Fence", c.Token}
	const decisions = "/v1/spaces/project:a/decisions"
	intent := `{"action":"charge","run":"` + c.Run.ID + `"}`
	s.want(201, nil, "POST", decisions, intent, fence...)
	s.want(200, nil, "POST", path+"/runs/"+c.Run.ID+"/cancel", nil)
	s.refuse(409, "cancelled", "POST", path+"/turns/"+c.Turn+"/blocks", `{"type":"tool","tool":{"name":"charge","input":{}}}`, fence...)
	s.refuse(409, "cancelled", "POST", decisions, intent, fence...)
	s.want(200, nil, "POST", path+"/runs/"+c.Run.ID+"/finish", `{"status":"succeeded"}`, fence...)
	s.refuse(409, "conflict", "POST", decisions, intent)
	if r := s.refuse(409, "conflict", "DELETE", path+"/queue/"+c.Run.ID, nil); !strings.Contains(r.Detail, "it has ended") {
		t.Errorf("the ended run is taken out of the queue: %s", r.Detail)
	}
}

func TestAWorkerInAnyLanguageWaitsForASignal(t *testing.T) {
	s := serve(t, nil)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
	var c claimed
	s.want(201, nil, "POST", path+"/runs", `{"prompt":"x"}`)
	s.want(200, &c, "POST", "/v1/runs/claim", `{"spaces":["project:a"]}`)
	one, fence := path+"/runs/"+c.Run.ID, []string{"Thole-Fence", c.Token}
	var got struct {
		Arrived bool
		Data    json.RawMessage
	}
	status := func() string {
		var r aRun
		s.want(200, &r, "GET", one, nil)
		return r.Status
	}
	s.want(204, nil, "POST", one+"/signals", `{"name":"early","data":1}`)
	s.want(200, &got, "POST", one+"/wait", `{"name":"early"}`, fence...)
	if !got.Arrived || string(got.Data) != "1" || status() != "running" {
		t.Errorf("a signal that was there: %+v, the run is %s", got, status())
	}
	s.want(200, &got, "POST", one+"/wait", `{"name":"approval","wait_seconds":3}`, fence...)
	if got.Arrived || status() != "waiting" {
		t.Errorf("no signal: %+v, the run is %s", got, status())
	}
	answer := make(chan reply, 1)
	go func() {
		answer <- s.do("POST", one+"/wait", `{"name":"approval","wait_seconds":20}`, append(fence, "Idempotency-Key", "k")...)
	}()
	sp := s.store.Space("project:a")
	poll(t, "the worker to wait", func() bool { return sp.Watchers() == 1 })
	s.want(204, nil, "POST", one+"/signals", `{"name":"approval","data":{"ok":true}}`)
	if r := <-answer; r.status != 200 || !strings.Contains(string(r.body), `"arrived":true,"data":{"ok":true}`) || status() != "running" {
		t.Errorf("after the signal: %d %s, the run is %s", r.status, r.body, status())
	}
	go func() { answer <- s.do("POST", one+"/wait", `{"name":"approval"}`, fence...) }()
	poll(t, "the worker to wait again", func() bool { return status() == "waiting" })
	s.want(200, nil, "POST", one+"/cancel", nil)
	if r := <-answer; r.status != 409 || r.problem(t).Code != "cancelled" {
		t.Errorf("after the cancel: %d %s", r.status, r.body)
	}
	for _, body := range []string{`{}`, `{"name":"x","wait_seconds":-1}`, `{"name":"x","wait_seconds":301}`} {
		s.refuse(400, "invalid", "POST", one+"/wait", body, fence...)
	}
	s.refuse(400, "invalid", "POST", one+"/wait", `{"name":"x"}`)
}

// worker claims the next run of a space and works on it with do.
func (s *server) worker(space string, do func(ctx context.Context, h *run.Handle) error) (done chan error) {
	done = make(chan error, 1)
	go func() {
		h, err := run.In(s.store.Space(space), nil).Claim(context.Background(), &run.ClaimOptions{Wait: 20e9})
		if err == nil {
			err = h.Do(context.Background(), do)
		}
		done <- err
	}()
	return done
}

func (s *server) startStreaming(path, body string, headers ...string) (events *watcher, hangUp func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "POST", s.http.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || resp.StatusCode != 200 {
		s.t.Fatalf("POST %s: %v, %v", path, resp, err)
	}
	s.t.Cleanup(func() { cancel(); resp.Body.Close() })
	return newWatcher(s.t, resp, cancel), cancel
}

func TestARunThatStreamsEndsWithComplete(t *testing.T) {
	s := serve(t, nil)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
	done := s.worker("project:a", func(ctx context.Context, h *run.Handle) error { return h.Text(ctx, "hello") })
	heard := func() (types []string) {
		w, _ := s.startStreaming(path+"/runs", `{"prompt":"hi"}`, "Idempotency-Key", "k")
		for {
			f, ok := w.next()
			if !ok {
				return types
			}
			types = append(types, f.event)
			if f.event == "complete" && (f.id != "" || !strings.Contains(f.raw, `"status":"succeeded"`)) {
				t.Errorf("the last event is %s", f.raw)
			}
		}
	}
	types := heard()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(types) < 4 || types[0] != "run.queued" || types[len(types)-2] != "run.finished" || types[len(types)-1] != "complete" {
		t.Errorf("received %v", types)
	}
}

// A client whose connection broke before it had received an id repeats its request
// under its key. It misses nothing of the run, whether that is running or has ended.
func TestARepeatedStreamOfARunBeginsBeforeTheRun(t *testing.T) {
	s := serve(t, nil)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
	const body = `{"prompt":"hi"}`
	said, goOn := make(chan bool), make(chan bool)
	done := s.worker("project:a", func(ctx context.Context, h *run.Handle) error {
		if _, err := h.Block(ctx, thread.TextBlock("hello")); err != nil {
			return err
		}
		close(said)
		<-goOn
		return nil
	})
	first, hangUp := s.startStreaming(path+"/runs", body, "Idempotency-Key", "k")
	hangUp()
	for _, ok := first.next(); ok; _, ok = first.next() {
	}
	<-said
	var once sync.Once
	listen := func(headers ...string) (ids, types []string) {
		w, _ := s.startStreaming(path+"/runs", body, append(headers, "Idempotency-Key", "k")...)
		once.Do(func() { close(goOn) })
		for f, ok := w.next(); ok; f, ok = w.next() {
			if f.id != "" {
				ids = append(ids, f.id)
			}
			types = append(types, f.event)
		}
		return ids, types
	}
	ids, types := listen()
	if err := <-done; err != nil {
		t.Error(err)
	}
	want := []string{"run.queued", "message.added", "run.started", "message.updated", "message.completed", "run.finished", "complete"}
	if !slices.Equal(types, want) {
		t.Errorf("the repeat during the run received %v, want %v", types, want)
	}
	if _, types := listen(); !slices.Equal(types, want) {
		t.Errorf("the repeat after its end received %v, want %v", types, want)
	}
	for n, id := range ids {
		if _, types := listen("Last-Event-ID", id); !slices.Equal(types, want[n+1:]) {
			t.Errorf("the repeat after event %d received %v, want %v", n, types, want[n+1:])
		}
	}
	s.refuse(400, "invalid", "POST", path+"/runs", body, "Accept", "text/event-stream", "Idempotency-Key", "k", "Last-Event-ID", "x")
	end, err := thole.ParsePosition(ids[len(ids)-1])
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.Space("project:a").Purge(t.Context(), thole.Purge{Events: []thole.Position{end}}); err != nil {
		t.Fatal(err)
	}
	if _, types := listen(); !slices.Equal(types, []string{"complete"}) {
		t.Errorf("the repeat after the end's event was redacted received %v", types)
	}
}

// An edit elsewhere in the space does not end the stream of a run.
func TestARunThatStreamsIsHeardToItsEndThoughFilesAreEdited(t *testing.T) {
	dir := t.TempDir()
	b, err := filestore.Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := thole.Open(t.Context(), b, &thole.Options{Concepts: rest.Concepts()})
	if err != nil {
		t.Fatal(err)
	}
	s := serveStore(t, store, nil)
	s.want(200, nil, "PUT", "/v1/spaces/project:a/kv/n/k", `{"data":"old"}`)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
	sp := store.Space("project:a")
	done := s.worker("project:a", func(ctx context.Context, h *run.Handle) error {
		w, err := sp.Watch(ctx, &thole.WatchOptions{Types: []string{"space.*"}})
		if err != nil {
			return err
		}
		defer w.Close()
		if err := b.Flush(ctx); err != nil {
			return err
		}
		file := filepath.Join(dir, "project", "a", "records", "kv", "n", "k.json")
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, bytes.Replace(text, []byte("old"), []byte("newer"), 1), 0o644)
		}
		if err != nil {
			return err
		}
		if _, err := w.Next(ctx); !errors.Is(err, thole.ErrTrimmed) {
			return fmt.Errorf("a watch: got %v, want ErrTrimmed", err)
		}
		return nil
	})
	w, _ := s.startStreaming(path+"/runs", `{"prompt":"hi"}`)
	last := ""
	for f, ok := w.next(); ok; f, ok = w.next() {
		last = f.event
	}
	if err := <-done; err != nil || last != "complete" {
		t.Errorf("the stream ended with %s, the run with %v; want complete", last, err)
	}
}

func TestOnlyTheConnectionThatStartedARunCancelsIt(t *testing.T) {
	s := serve(t, nil)
	for policy, want := range map[string]string{"continue": "succeeded", "cancel": "cancelled"} {
		path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
		finish := make(chan bool)
		started := make(chan string, 1)
		done := s.worker("project:a", func(ctx context.Context, h *run.Handle) error {
			started <- h.ID()
			select {
			case <-finish:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		other := s.watch(path + "/events")
		_, hangUp := s.startStreaming(path+"/runs", `{"prompt":"hi","on_disconnect":"`+policy+`"}`)
		id := <-started
		other.cancel() // a watcher only watches
		sp := s.store.Space("project:a")
		poll(t, "the other watcher to go", func() bool { return sp.Watchers() <= 2 })
		hangUp()
		if policy == "continue" {
			poll(t, "the starter to go", func() bool { return sp.Watchers() <= 1 })
			close(finish)
		}
		<-done
		var r aRun
		s.want(200, &r, "GET", path+"/runs/"+id, nil)
		if r.Status != want || policy == "cancel" && r.Cancel.Cause != "disconnect" {
			t.Errorf("%s: the run is %s, %+v", policy, r.Status, r.Cancel)
		}
	}
}

// A client whose connection broke repeats its start, perhaps before the server has
// noticed.
func TestTheLastConnectionOfAStartDecidesAboutItsRun(t *testing.T) {
	s := serve(t, nil)
	sp := s.store.Space("project:a")
	for _, order := range [][]int{{1, 0}, {0, 1}} { // the repeat is closed first; the first connection is
		path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
		started := make(chan string, 1)
		done := s.worker("project:a", func(ctx context.Context, h *run.Handle) error {
			started <- h.ID()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		start := func() func() {
			_, hangUp := s.startStreaming(path+"/runs", `{"prompt":"hi","on_disconnect":"cancel"}`, "Idempotency-Key", path)
			return hangUp
		}
		open := []func(){start()}
		id := <-started
		open = append(open, start())
		poll(t, "both, and the worker", func() bool { return sp.Watchers() == 3 })
		open[order[0]]()
		poll(t, "it to go", func() bool { return sp.Watchers() <= 2 })
		var r aRun
		for range 50 {
			if s.want(200, &r, "GET", path+"/runs/"+id, nil); r.Status != "running" || r.Cancel != nil {
				t.Fatalf("%v: the run is %s, %+v although a connection of its start is open", order, r.Status, r.Cancel)
			}
		}
		open[order[1]]()
		<-done
		s.want(200, &r, "GET", path+"/runs/"+id, nil)
		if r.Status != "cancelled" || r.Cancel.Cause != "disconnect" {
			t.Errorf("%v: the run is %s, %+v", order, r.Status, r.Cancel)
		}
	}
}

func TestTheQueueIsListedEditedAndShortened(t *testing.T) {
	heard := make(runner, 10)
	s := serve(t, &rest.Options{Runner: heard})
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", `{"assistant":"coder"}`)
	var ids []string
	for _, prompt := range []string{"one", "two", "three"} {
		var r aRun
		s.want(201, &r, "POST", path+"/runs", map[string]string{"prompt": prompt})
		ids = append(ids, r.ID)
		if got := <-heard; got != "project:a coder" {
			t.Errorf("the runner received %q", got)
		}
	}
	s.refuse(409, "conflict", "POST", path+"/runs", `{"prompt":"x","policy":"reject"}`)
	s.refuse(400, "invalid", "POST", path+"/runs", `{"prompt":"x","policy":"shove"}`)
	edited := s.want(200, nil, "PATCH", path+"/queue/"+ids[1], `{"prompt":"two and a half"}`)
	if !strings.Contains(string(edited.body), "two and a half") {
		t.Errorf("edited: %s", edited.body)
	}
	s.refuse(412, "conflict", "PATCH", path+"/queue/"+ids[1], `{"prompt":"late"}`, "If-Match", s.do("GET", path+"/runs/"+ids[0], nil).header.Get("ETag"))
	s.want(204, nil, "DELETE", path+"/queue/"+ids[2], nil)
	var q aRun
	s.want(200, &q, "GET", path+"/queue", nil)
	if len(q.Items) != 2 || q.Items[0].ID != ids[0] || q.Items[1].ID != ids[1] {
		t.Errorf("queue: %+v", q.Items)
	}
	s.want(200, &q, "POST", path+"/runs/"+ids[0]+"/cancel", nil)
	if q.Status != "cancelled" || q.Cancel.Cause != "user" {
		t.Errorf("cancelled run is %+v", q)
	}
	s.want(200, &q, "POST", path+"/runs/"+ids[0]+"/cancel", `{"cause":"credits"}`)
	if q.Status != "cancelled" || q.Cancel.Cause != "user" {
		t.Errorf("the run that was cancelled again is %+v", q)
	}
	s.refuse(400, "invalid", "POST", path+"/runs/"+ids[1]+"/cancel", `{"cause":"boredom"}`)
	s.refuse(404, "not_found", "GET", "/v1/spaces/project:a/threads/"+s.createThread("project:a", nil)+"/runs/"+ids[0], nil)
	s.want(200, &q, "GET", path+"/runs", nil)
	if len(q.Items) != 3 {
		t.Errorf("%d runs listed, want 3", len(q.Items))
	}
}

func TestARunThatResumesOverHTTPHasWhatTheFirstWasAskedFor(t *testing.T) {
	s := serve(t, nil)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil) + "/runs"
	var first, second struct {
		ID, Agent, Model string
		OnDisconnect     string `json:"on_disconnect"`
		Timeout          int
		Options          json.RawMessage
	}
	s.want(201, &first, "POST", path,
		`{"prompt":"go","agent":"coder","model":"m","timeout":60,"on_disconnect":"cancel","file_structure":"a.go"}`)
	s.want(200, nil, "POST", path+"/"+first.ID+"/cancel", nil)
	s.want(201, &second, "POST", path, map[string]any{"resumed_from": first.ID, "model": "n"})
	want := first
	want.ID, want.Model = second.ID, "n"
	if fmt.Sprint(second) != fmt.Sprint(want) || second.Timeout != 60 {
		t.Errorf("got %+v, want %+v", second, want)
	}
}

func TestARunWithoutAMessageToAnswerIsRefused(t *testing.T) {
	s := serve(t, nil)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
	for _, body := range []string{`{}`, `{"prompt":"","blocks":[]}`} {
		s.refuse(409, "conflict", "POST", path+"/runs", body)
	}
	s.refuse(400, "invalid", "POST", path+"/runs", `{"blocks":[{"type":"text"}]}`)
	var first run.Run
	s.want(201, &first, "POST", path+"/runs", `{"prompt":"hi"}`)
	s.refuse(400, "invalid", "PATCH", path+"/queue/"+first.ID, `{"blocks":[]}`)
	s.want(201, nil, "POST", path+"/runs", `{}`) // behind a run with a message
}

// runner receives the runs that were started.
type runner chan string

func (r runner) Queued(space, agent string) { r <- space + " " + agent }

func TestALockIsHeldByOneAndFencesTheOthers(t *testing.T) {
	s := serve(t, nil)
	const locks = "/v1/spaces/project:a/locks"
	var held struct{ Name, Owner, Token string }
	r := s.want(201, &held, "POST", locks, `{"name":"src/app.ts","owner":"a"}`)
	if got := r.header.Get("Location"); got != locks+"/src%2Fapp.ts" {
		t.Errorf("Location %s", got)
	}
	if f, err := thole.ParseFence(held.Token); err != nil || f.Key != "lock/src%2Fapp.ts/owner" {
		t.Errorf("the token %s is %+v, %v", held.Token, f, err)
	}
	p := s.refuse(409, "conflict", "POST", locks, `{"name":"src/app.ts","owner":"b"}`)
	if p.Holder != "a" {
		t.Errorf("the conflict does not say who has it: %+v", p)
	}
	if r := s.want(200, nil, "GET", locks, nil); !strings.Contains(string(r.body), `"owner":"a"`) || strings.Contains(string(r.body), "token") {
		t.Errorf("locks: %s", r.body)
	}
	s.want(204, nil, "PUT", locks+"/src/app.ts", `{"ttl":60}`, "Thole-Fence", held.Token)
	put := func(token string) reply {
		return s.do("PUT", "/v1/spaces/project:a/kv/n/k", `{"data":1}`, "Thole-Fence", token)
	}
	if r := put(held.Token); r.status != 200 {
		t.Errorf("a write under the lock: %d %s", r.status, r.body)
	}
	waited := make(chan reply)
	go func() { waited <- s.do("POST", locks, `{"name":"src/app.ts","owner":"b","wait":20}`) }()
	poll(t, "b to wait", func() bool {
		return strings.Contains(string(s.do("GET", locks+"/src/app.ts", nil).body), `"waiters":[{"owner":"b"`)
	})
	s.want(204, nil, "DELETE", locks+"/src/app.ts", nil, "Thole-Fence", held.Token)
	if r := <-waited; r.status != 201 {
		t.Errorf("the waiter got %d %s", r.status, r.body)
	}
	if r := put(held.Token); r.status != 409 || r.problem(t).Code != "fenced" {
		t.Errorf("a write under a lock that was given back: %d %s", r.status, r.body)
	}
	s.refuse(409, "fenced", "PUT", locks+"/src/app.ts", nil, "Thole-Fence", held.Token)
	s.refuse(400, "invalid", "DELETE", locks+"/src/app.ts", nil)
	s.refuse(400, "invalid", "DELETE", locks+"/src/app.ts", nil, "Thole-Fence", "x")
	noLease := base64.RawURLEncoding.EncodeToString([]byte("kv/n/k@0001deadbeef-0000000000000001"))
	s.refuse(400, "invalid", "PUT", "/v1/spaces/project:a/kv/n/k", `{"data":1}`, "Thole-Fence", noLease)
	s.refuse(400, "invalid", "POST", locks, `{"name":"x","ttl":-1}`)
	s.refuse(400, "invalid", "POST", locks, `{"name":"x","ttl":"1"}`)
}

func TestNoNumberOfSecondsComesToAnother(t *testing.T) {
	s := serve(t, nil)
	const space = "/v1/spaces/project:a"
	thread := space + "/threads/" + s.createThread("project:a", nil)
	s.want(201, nil, "POST", thread+"/runs", `{"prompt":"x"}`)
	var c claimed
	s.want(200, &c, "POST", claimPath, `{"spaces":["project:a"]}`)
	for _, n := range []string{"-1", "4000000000", "9223372037", "10000000000", "18446744074", "9223372036854775807", "9223372036854775808", "1e19", "1e300"} {
		for _, r := range [][3]string{
			{"POST", space + "/threads", `{"ttl":N}`},
			{"PATCH", thread, `{"ttl":N}`},
			{"POST", thread + "/runs", `{"prompt":"x","timeout":N}`},
			{"PUT", space + "/kv/n/k?ttl=N", `{"data":1}`},
			{"POST", space + "/locks", `{"name":"x","ttl":N}`},
			{"POST", space + "/locks", `{"name":"x","wait":N}`},
			{"PUT", space + "/locks/x", `{"ttl":N}`},
			{"POST", claimPath, `{"spaces":["project:a"],"wait_seconds":N}`},
			{"POST", thread + "/runs/" + c.Run.ID + "/wait", `{"name":"x","wait_seconds":N}`},
		} {
			path, body := strings.ReplaceAll(r[1], "N", n), strings.ReplaceAll(r[2], "N", n)
			var headers []string
			if strings.HasSuffix(path, "/wait") {
				headers = []string{"Thole-Fence", c.Token}
			}
			s.refuse(400, "invalid", r[0], path, body, headers...)
		}
	}
}

func TestATokenRenewsItsOwnLockOnly(t *testing.T) {
	s := serve(t, nil)
	const locks = "/v1/spaces/project:a/locks"
	var a, b, intent struct{ Token string }
	s.want(201, &a, "POST", locks, `{"name":"a"}`)
	s.want(201, &b, "POST", locks, `{"name":"b"}`)
	s.want(201, &intent, "POST", locks, `{"name":"a","mode":"intent","owner":"me"}`)
	thread := s.createThread("project:a", nil)
	s.want(201, nil, "POST", "/v1/spaces/project:a/threads/"+thread+"/runs", `{"prompt":"x"}`)
	var c claimed
	s.want(200, &c, "POST", "/v1/runs/claim", `{"spaces":["project:a"]}`)
	for _, method := range []string{"PUT", "DELETE"} {
		for _, token := range []string{b.Token, c.Token} {
			s.refuse(400, "invalid", method, locks+"/a", nil, "Thole-Fence", token)
		}
		s.want(204, nil, method, locks+"/a", nil, "Thole-Fence", intent.Token)
		s.want(204, nil, method, locks+"/a", nil, "Thole-Fence", a.Token)
	}
}

func TestAWorkerMayEnterThePrivateThreadOfItsRunOnly(t *testing.T) {
	s := serveWithTokens(t, nil)
	owner := s.as("user:1", auth.Grant{Space: "project:a", Access: auth.Write})
	worker := s.as("agent:coder", auth.Grant{Space: "project:a", Access: auth.Work})
	path := "/v1/spaces/project:a/threads/" + owner.createThread("project:a", `{"visibility":"private"}`)
	elsewhere := "/v1/spaces/project:a/threads/" + owner.createThread("project:a", `{"visibility":"private"}`)
	owner.want(201, nil, "POST", path+"/runs", `{"prompt":"hi"}`)
	var c claimed
	worker.want(200, &c, "POST", "/v1/runs/claim", `{"spaces":["project:a"]}`)
	worker.refuse(404, "not_found", "GET", path+"/messages", nil)
	worker.want(200, nil, "GET", path+"/messages", nil, "Thole-Fence", c.Token)
	worker.refuse(404, "not_found", "GET", elsewhere+"/messages", nil, "Thole-Fence", c.Token)
	worker.want(200, nil, "POST", path+"/runs/"+c.Run.ID+"/finish", `{"status":"succeeded"}`, "Thole-Fence", c.Token)
	worker.refuse(409, "fenced", "GET", path+"/messages", nil, "Thole-Fence", c.Token)
	worker.refuse(404, "not_found", "GET", path+"/messages", nil)
}

func TestANarrowedGrantRunsOnlyItsThreads(t *testing.T) {
	s := serveWithTokens(t, nil)
	writer := s.as("user:1", auth.Grant{Space: "project:a", Access: auth.Write})
	mine, other := writer.createThread("project:a", nil), writer.createThread("project:a", nil)
	narrow := s.as("user:2", auth.Grant{Space: "project:a", Access: auth.Write, Threads: []string{mine}})
	var r aRun
	writer.want(201, &r, "POST", "/v1/spaces/project:a/threads/"+other+"/runs", `{"prompt":"x"}`)
	path := "/v1/spaces/project:a/threads/"
	narrow.refuse(403, "forbidden", "POST", path+other+"/runs", `{"prompt":"x"}`)
	narrow.refuse(404, "not_found", "POST", path+mine+"/runs", `{"prompt":"x","parent":"`+r.ID+`"}`)
	narrow.refuse(404, "not_found", "GET", path+mine+"/runs/"+r.ID, nil)
	narrow.refuse(403, "forbidden", "POST", "/v1/runs/claim", `{"spaces":["project:a"]}`)
	narrow.refuse(403, "forbidden", "GET", "/v1/spaces/project:a/kv/n", nil)
	narrow.refuse(403, "forbidden", "POST", "/v1/spaces/project:a/threads", nil)
	narrow.want(201, nil, "POST", path+mine+"/runs", `{"prompt":"x"}`)
	var list aRun
	narrow.want(200, &list, "GET", "/v1/spaces/project:a/threads", nil)
	if len(list.Items) != 1 || list.Items[0].ID != mine {
		t.Errorf("threads leaked: %+v", list.Items)
	}
}

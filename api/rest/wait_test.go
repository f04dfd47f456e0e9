package rest_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/state/run"
)

// kept is a backend that outlives its Store.
type kept struct{ *memstore.Store }

func (kept) Close() error { return nil }

// The answer to …/wait is lost with the connection, the server and the worker.
func TestARepeatedWaitOverHTTPGetsTheSignalAgain(t *testing.T) {
	b := kept{memstore.New()}
	start := func() *server {
		store, err := thole.Open(context.Background(), b, &thole.Options{Concepts: rest.Concepts()})
		if err != nil {
			t.Fatal(err)
		}
		return serveStore(t, store, &rest.Options{})
	}
	s := start()
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
	var c claimed
	s.want(201, nil, "POST", path+"/runs", `{"prompt":"x"}`)
	s.want(200, &c, "POST", "/v1/runs/claim", `{"spaces":["project:a"]}`)
	one, fence := path+"/runs/"+c.Run.ID, []string{"Thole-Fence", c.Token}
	wait := func(s *server, key, want string) {
		t.Helper()
		r := s.want(200, nil, "POST", one+"/wait", `{"name":"approval","wait_seconds":5}`, append(fence, "Idempotency-Key", key)...)
		if got := strings.TrimSpace(string(r.body)); got != want {
			t.Errorf("wait under %s: got %s, want %s", key, got, want)
		}
	}
	for _, data := range []string{"1", "2"} {
		s.want(204, nil, "POST", one+"/signals", `{"name":"approval","data":`+data+`}`)
	}
	if r := s.want(200, nil, "GET", one, nil); !strings.Contains(string(r.body), `"signals":{"approval":2}`) {
		t.Errorf("the run does not show what waits: %s", r.body)
	}
	wait(s, "a", `{"arrived":true,"data":1}`)
	wait(s, "a", `{"arrived":true,"data":1}`)
	again := start() // another server, to which the worker reconnects
	wait(again, "a", `{"arrived":true,"data":1}`)
	wait(again, "b", `{"arrived":true,"data":2}`)
	again.want(200, nil, "POST", one+"/finish", `{"status":"succeeded"}`, fence...)
	wait(start(), "b", `{"arrived":true,"data":2}`)
	again.refuse(409, "conflict", "POST", one+"/signals", `{"name":"approval"}`)
}

// A worker takes a signal and dies before it gets the answer, or while it waits. The
// worker of the run that resumes it uses the same keys for the same steps.
func TestAWaitUnderTheSameKeyGetsTheSignalInTheRunThatResumes(t *testing.T) {
	for _, sent := range []string{"before it waits", "when nobody waits any more"} {
		s, later := serveWithClock(t)
		path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
		var c claimed
		work := func(body string) (one string, headers []string) {
			s.want(201, nil, "POST", path+"/runs", body)
			s.want(200, &c, "POST", "/v1/runs/claim", `{"spaces":["project:a"]}`)
			return path + "/runs/" + c.Run.ID, []string{"Thole-Fence", c.Token, "Idempotency-Key", "approval"}
		}
		const wait = `{"name":"approval","wait_seconds":1}`
		one, headers := work(`{"prompt":"x"}`)
		first := c.Run.ID
		if sent == "before it waits" {
			s.want(204, nil, "POST", one+"/signals", `{"name":"approval","data":1}`)
			s.want(200, nil, "POST", one+"/wait", wait, headers...)
		} else {
			s.want(200, nil, "POST", one+"/wait", wait, headers...)
			s.want(204, nil, "POST", one+"/signals", `{"name":"approval","data":1}`)
		}
		later(time.Minute) // it is dead

		one, headers = work(`{"resumed_from":"` + first + `"}`)
		for range 2 {
			r := s.want(200, nil, "POST", one+"/wait", wait, headers...)
			if got := strings.TrimSpace(string(r.body)); got != `{"arrived":true,"data":1}` {
				t.Errorf("%s: wait in the run that resumes: got %s", sent, got)
			}
		}
		s.refuse(422, "invalid", "POST", one+"/wait", `{"name":"other","wait_seconds":1}`, headers...)
		s.want(200, nil, "POST", one+"/finish", `{"status":"succeeded"}`, headers[:2]...)
		if r := s.want(200, nil, "POST", one+"/wait", wait, headers...); !strings.Contains(string(r.body), `"data":1`) {
			t.Errorf("%s: repeated after the end: %s", sent, r.body)
		}
	}
}

// Until the run has ended, its worker's heartbeats say that the thread is gone.
func TestAHeartbeatSaysThatTheThreadIsGone(t *testing.T) {
	s, later := serveWithClock(t)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
	var c claimed
	s.want(201, nil, "POST", path+"/runs", `{"prompt":"x"}`)
	s.want(200, &c, "POST", "/v1/runs/claim", `{"spaces":["project:a"]}`)
	one := path + "/runs/" + c.Run.ID
	s.want(200, nil, "POST", one+"/heartbeat", nil, "Thole-Fence", c.Token)
	s.want(204, nil, "DELETE", path, nil)
	for range 5 { // the worker ignores it
		later(20 * time.Second)
		beat := s.do("POST", one+"/heartbeat", nil, "Thole-Fence", c.Token)
		wait := s.do("POST", one+"/wait", `{"name":"x","wait_seconds":1}`, "Thole-Fence", c.Token)
		if got, want := beat.problem(t), wait.problem(t); beat.status != wait.status || got.Code != want.Code {
			t.Errorf("heartbeat: got %d %s, want %d %s as of a wait", beat.status, beat.body, wait.status, wait.body)
		}
	}
	r, err := run.In(s.store.Space("project:a"), nil).Peek(t.Context(), c.Run.ID)
	if err != nil || !r.Ended() {
		t.Errorf("the run is %+v, %v; want it ended", r, err)
	}
}

// serveWithClock serves a new store whose clock is moved only by later, which also
// sweeps.
func serveWithClock(t *testing.T) (s *server, later func(time.Duration)) {
	t.Helper()
	var ahead atomic.Int64
	start := time.Now().Round(0)
	clock := func() time.Time { return start.Add(time.Duration(ahead.Load())) }
	store, err := thole.Open(t.Context(), memstore.New(), &thole.Options{Concepts: rest.Concepts(), Now: clock, Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	return serveStore(t, store, nil), func(d time.Duration) {
		t.Helper()
		ahead.Add(int64(d))
		if err := store.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// The requests of a worker do not know of each other. The run and its thread are right
// all the same, and asking in a loop emits no event.
func TestWhatARunWaitsForOverHTTP(t *testing.T) {
	s, later := serveWithClock(t)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
	var c claimed
	s.want(201, nil, "POST", path+"/runs", `{"prompt":"x"}`)
	s.want(200, &c, "POST", "/v1/runs/claim", `{"spaces":["project:a"]}`)
	one, fence := path+"/runs/"+c.Run.ID, []string{"Thole-Fence", c.Token}
	waits := func(status, names string) {
		t.Helper()
		var r struct {
			Status     string   `json:"status"`
			WaitingFor string   `json:"waiting_for"`
			Waits      []string `json:"waits"`
		}
		raw := s.want(200, &r, "GET", one, nil)
		first, _, _ := strings.Cut(names, " ")
		if r.Status != status || r.WaitingFor != first || strings.Join(r.Waits, " ") != names {
			t.Errorf("got %s; want it %s, for %q", raw.body, status, names)
		}
		if strings.Contains(string(raw.body), "waits_until") {
			t.Errorf("the run shows what only the store needs: %s", raw.body)
		}
		if status == "running" {
			status = "busy"
		}
		if s.want(200, &r, "GET", path, nil); r.Status != status {
			t.Errorf("the thread is %s, want %s", r.Status, status)
		}
	}
	told := func(want string) {
		t.Helper()
		var got []string
		q := thole.ReadQuery{Types: []string{"run.waiting", "run.signalled", "run.updated"}}
		for e, err := range s.store.Space("project:a").Events(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.TrimPrefix(e.Type, "run."))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	block := func() {
		t.Helper()
		s.want(201, nil, "POST", path+"/turns/"+c.Turn+"/blocks", `{"type":"text","content":"on"}`, fence...)
	}
	for range 3 { // in a loop
		s.want(200, nil, "POST", one+"/wait", `{"name":"a","wait_seconds":1}`, fence...)
		waits("waiting", "a")
	}
	told("waiting")
	later(time.Second) // the store's clock stood still
	block()
	block()
	waits("running", "")
	told("waiting updated")

	answers := make(chan string, 2)
	for _, name := range []string{"a", "b"} {
		s.want(200, nil, "POST", one+"/wait", `{"name":"`+name+`","wait_seconds":1}`, fence...)
		go func() { // again, and for longer
			r := s.do("POST", one+"/wait", `{"name":"`+name+`","wait_seconds":200}`, fence...)
			answers <- strings.TrimSpace(string(r.body))
		}()
		poll(t, "the run to note how long "+name+" is waited for", func() bool {
			return time.Until(waitsUntil(t, s.store, c.Run.ID)[name]) > 100*time.Second
		})
	}
	later(2 * time.Second) // the first end that was noted has passed
	block()
	waits("waiting", "a b")
	for i, name := range []string{"a", "b"} {
		s.want(204, nil, "POST", one+"/signals", fmt.Sprintf(`{"name":%q,"data":%d}`, name, i))
		if got, want := <-answers, fmt.Sprintf(`{"arrived":true,"data":%d}`, i); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if name == "a" {
			waits("waiting", "b")
		}
	}
	waits("running", "")
	told("waiting updated waiting waiting signalled signalled")
}

// waiter is a worker of a run over HTTP.
type waiter struct {
	*server
	path, one, turn string
	fence           []string
}

func serveWaiter(t *testing.T) *waiter {
	s, _ := serveWithClock(t)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
	var c claimed
	s.want(201, nil, "POST", path+"/runs", `{"prompt":"x"}`)
	s.want(200, &c, "POST", "/v1/runs/claim", `{"spaces":["project:a"]}`)
	return &waiter{s, path, path + "/runs/" + c.Run.ID, path + "/turns/" + c.Turn + "/blocks", []string{"Thole-Fence", c.Token}}
}

// goesOn writes to the thread and then checks what the run waits for.
func (w *waiter) goesOn(status string, names ...string) {
	w.t.Helper()
	w.want(201, nil, "POST", w.turn, `{"type":"text","content":"on"}`, w.fence...)
	var r run.Run
	w.want(200, &r, "GET", w.one, nil)
	if r.Status != status || strings.Join(r.Waits, " ") != strings.Join(names, " ") {
		w.t.Errorf("the run is %s and waits for %q; want it %s, for %q", r.Status, r.Waits, status, names)
	}
}

// until returns the ends of the run's waits that are not over.
func (w *waiter) until() map[string]time.Time {
	w.t.Helper()
	until := waitsUntil(w.t, w.store, path.Base(w.one))
	maps.DeleteFunc(until, func(_ string, end time.Time) bool { return !end.After(w.store.Now()) })
	return until
}

// waitsUntil returns, by name, the ends of the requests that wait for signals to the
// run.
func waitsUntil(t *testing.T, s *thole.Store, id string) map[string]time.Time {
	t.Helper()
	rec, err := s.Space("project:a").Get(t.Context(), "run/"+id+"/internal")
	var internal struct {
		Until map[string]time.Time `json:"waits_until"`
	}
	if err == nil && rec.Exists() {
		err = rec.As(&internal)
	}
	if err != nil {
		t.Fatal(err)
	}
	return internal.Until
}

// begin waits for a signal until the returned function is called, which closes the
// connection.
func (w *waiter) begin(name string, seconds int) (leave func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	body := fmt.Sprintf(`{"name":%q,"wait_seconds":%d}`, name, seconds)
	req, err := http.NewRequestWithContext(ctx, "POST", w.http.URL+w.one+"/wait", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(w.fence[0], w.fence[1])
	ended := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			res.Body.Close()
		}
		ended <- err
	}()
	want := w.store.Now().Add(time.Duration(seconds-1) * time.Second)
	poll(w.t, "the run to wait for "+name, func() bool { return w.until()[name].After(want) })
	return func() {
		cancel()
		if err := <-ended; err == nil {
			w.t.Errorf("the wait for %s had an answer", name)
		}
	}
}

// left waits until the server has noticed that nobody waits for name.
func (w *waiter) left(name string) {
	w.t.Helper()
	poll(w.t, "the wait for "+name+" to end", func() bool { return w.until()[name].IsZero() })
}

func TestARunGoesOnWhenTheClientOfItsWaitWentAway(t *testing.T) {
	w := serveWaiter(t)
	w.begin("a", 300)()
	w.left("a")
	w.goesOn("running")

	w.begin("a", 200)()
	w.left("a")
	again := w.begin("a", 200)
	w.goesOn("waiting", "a")
	last := w.begin("a", 300)
	again()
	poll(t, "the shorter request to end", func() bool { return w.store.Space("project:a").Watchers() == 1 })
	w.goesOn("waiting", "a")
	last()
	w.left("a")
	w.goesOn("running")
}

func TestNamesThatNobodyWaitsForAnyMoreLeaveRoom(t *testing.T) {
	w := serveWaiter(t)
	var leave []func()
	for i := range 64 {
		leave = append(leave, w.begin(fmt.Sprint("approval", i), 300))
	}
	w.refuse(409, "conflict", "POST", w.one+"/wait", `{"name":"other","wait_seconds":1}`, w.fence...)
	for _, leave := range leave {
		leave()
	}
	for i := range 64 {
		w.left(fmt.Sprint("approval", i))
	}
	for i := range 6 {
		name := fmt.Sprint("other", i)
		w.begin(name, 300)()
		w.left(name)
	}
	w.goesOn("running")
}

package rest_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/state/run"
)

// kept outlives the Store on it.
type kept struct{ *memstore.Store }

func (kept) Close() error { return nil }

// The answer to …/wait is lost with the connection, the server and the worker.
func TestARepeatedWaitOverHTTPGetsTheSignalAgain(t *testing.T) {
	b := kept{memstore.New()}
	start := func() *server {
		store, err := thole.Open(context.Background(), b, nil)
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
	again := start() // another server, to which the worker comes back with a new connection
	wait(again, "a", `{"arrived":true,"data":1}`)
	wait(again, "b", `{"arrived":true,"data":2}`)
	again.want(200, nil, "POST", one+"/finish", `{"status":"succeeded"}`, fence...)
	wait(start(), "b", `{"arrived":true,"data":2}`)
	again.refuse(409, "conflict", "POST", one+"/signals", `{"name":"approval"}`)
}

// A worker takes a signal and dies before it hears so, or while it waits. The one
// that goes on in the run that resumes it uses the same keys for the same steps.
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

// What the worker hears of a run whose thread is destroyed says so, until the run
// has ended.
func TestAHeartbeatSaysThatTheThreadIsGone(t *testing.T) {
	s, later := serveWithClock(t)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
	var c claimed
	s.want(201, nil, "POST", path+"/runs", `{"prompt":"x"}`)
	s.want(200, &c, "POST", "/v1/runs/claim", `{"spaces":["project:a"]}`)
	one := path + "/runs/" + c.Run.ID
	s.want(200, nil, "POST", one+"/heartbeat", nil, "Thole-Fence", c.Token)
	s.want(204, nil, "DELETE", path, nil)
	for range 5 { // a worker that does not listen
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

// serveWithClock serves a new store whose time goes on only by later, which also
// sweeps.
func serveWithClock(t *testing.T) (s *server, later func(time.Duration)) {
	t.Helper()
	var ahead atomic.Int64
	start := time.Now().Round(0)
	clock := func() time.Time { return start.Add(time.Duration(ahead.Load())) }
	store, err := thole.Open(t.Context(), memstore.New(), &thole.Options{Now: clock, Sweep: -1})
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

package rest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
)

func TestAnApprovalIsNotLostWithTheWorkerThatTookIt(t *testing.T) {
	var ahead atomic.Int64
	store, err := thole.Open(context.Background(), memstore.New(), &thole.Options{Concepts: rest.Concepts(), Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
	s := serveStore(t, store, nil)
	const space = "/v1/spaces/project:a/threads/"
	path := space + s.createThread("project:a", `{"assistant":"coder"}`)
	var r struct {
		ID      string
		Signals map[string]int
	}
	var c claimed
	s.want(201, &r, "POST", path+"/runs", `{"prompt":"pay"}`)
	s.want(200, &c, "POST", claimPath, `{"spaces":["project:a"],"agent":"coder"}`)
	s.want(204, nil, "POST", path+"/runs/"+r.ID+"/signals", `{"name":"approval","data":"yes"}`)
	wait := func() (got struct {
		Arrived bool
		Data    string
	}) {
		t.Helper()
		s.want(200, &got, "POST", path+"/runs/"+c.Run.ID+"/wait", `{"name":"approval","wait_seconds":1}`, "Thole-Fence", c.Token, "Idempotency-Key", c.Run.ID)
		return got
	}
	resumed := func() int {
		t.Helper()
		ahead.Add(int64(time.Hour)) // the worker is dead
		s.want(201, &r, "POST", path+"/runs", `{"resumed_from":"`+r.ID+`"}`)
		s.want(200, &c, "POST", claimPath, `{"spaces":["project:a"],"agent":"coder"}`)
		r.Signals = nil
		s.want(200, &r, "GET", path+"/runs/"+r.ID, nil)
		return r.Signals["approval"]
	}
	for range 2 {
		if got := wait(); !got.Arrived || got.Data != "yes" {
			t.Fatalf("wait: got %+v", got)
		}
		if n := resumed(); n != 1 {
			t.Errorf("the resumed run has %d approvals, want 1", n)
		}
	}
	wait()
	s.want(201, nil, "POST", path+"/turns/"+c.Turn+"/blocks", `{"type":"text","content":"paid"}`, "Thole-Fence", c.Token)
	if n := resumed(); n != 0 {
		t.Errorf("after the worker acted: the resumed run has %d approvals, want none", n)
	}
}

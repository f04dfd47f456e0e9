package main_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

func TestWhatOneCallerMayTakeIsSetByFlags(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{Args: []string{"--max-body", "1000", "--max-watchers", "1"}})
	const events = "/v1/spaces/project:a/events"
	post := func(size int) int {
		r, err := s.Do(t.Context(), "POST", events, map[string]string{"type": "app.x", "data": strings.Repeat("x", size)})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status
	}
	if small, large := post(500), post(1000); small != 201 || large != 413 {
		t.Errorf("bodies below and above --max-body: got %d and %d, want 201 and 413", small, large)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	watch := func() int {
		req, err := http.NewRequestWithContext(ctx, "GET", s.URL+events, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		resp, err := s.HTTP.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp.StatusCode
	}
	if first, second := watch(), watch(); first != 200 || second != 429 {
		t.Errorf("two streams of --max-watchers 1: got %d and %d, want 200 and 429", first, second)
	}
	stop()
	s.Kill()
	s.Args = append(s.Args, "--rate", "2")
	s.Start()
	servertest.Eventually(t, 10*time.Second, "a caller to be too fast for --rate 2", func() bool {
		r, err := s.Do(t.Context(), "GET", "/v1/spaces", nil)
		return err == nil && r.Status == 429 && r.Code() == "rate_limited"
	})
	for _, command := range []string{"dev", "serve"} {
		for _, flag := range []string{"--max-body=0", "--max-watchers=-1", "--rate=-1"} {
			servertest.MustFail(t, t.TempDir(), nil, []string{command, flag}, "--max-body")
		}
	}
}

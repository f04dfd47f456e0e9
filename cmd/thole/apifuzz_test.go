package main_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/internal/apifuzz"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/servertest"
	"github.com/thole-dev/thole/journal"
)

// Everything that the OpenAPI document of a server on SQLite offers is called for
// THOLE_FUZZ_TIME (4 s, in make soak 10 min), with the seed THOLE_FUZZ_SEED (default
// 1). In ten minutes each operation must have succeeded fifty times.
func TestEveryAnswerIsAsTheDocumentSays(t *testing.T) {
	span, err := time.ParseDuration(cmp.Or(os.Getenv("THOLE_FUZZ_TIME"), effort.Amount("4s", "4s", "10m")))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("THOLE_FUZZ_SEED"), "1"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("THOLE_FUZZ_SEED=%d", seed)
	s := servertest.Serve(t, t.TempDir())
	var tokens []string
	for _, grant := range []string{"*=admin", "project:*=write", "*=read", "project:s1=admin", "user:*=write"} {
		var v struct{ Secret string }
		got := servertest.Command(t, s.Dir, nil, "token", "create", "t", "--store", s.Store, "--actor", fmt.Sprintf("user:%d", len(tokens)), "--grant", grant)
		if err := json.Unmarshal([]byte(got.Out), &v); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, v.Secret)
	}
	before := goroutines(s, tokens[0])
	var hello struct{ Instance string }
	s.Must("GET", "/v1/backend", nil, &hello, "Authorization", "Bearer "+tokens[0])
	report, err := apifuzz.Run(t.Context(), apifuzz.Config{
		URL: s.URL, Tokens: tokens, Seed: seed, Time: span, Clients: 6, Special: backendMessages(t, hello.Instance),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Failures() {
		t.Errorf("%d times: %s\nfirst of %s", f.Times, f.What, f.Request)
	}
	want := 0
	if span >= 10*time.Minute {
		want = 50
	}
	for _, c := range report.Counts() {
		if c.Good < want {
			t.Errorf("%s succeeded %d times, want %d; it was refused for\n%q", c.Operation, c.Good, want, report.Reasons(c.Operation))
		}
	}
	t.Logf("%s", report)
	s.Must("GET", "/readyz", nil, nil)
	servertest.Eventually(t, 30*time.Second, "as many goroutines as before", func() bool {
		return goroutines(s, tokens[0]) <= before+10
	})
	s.Terminate()
	log, err := os.ReadFile(s.Log)
	if err != nil || bytes.Contains(log, []byte("panic")) {
		t.Errorf("a handler panicked: %v\n%s", err, s.LogTail())
	}
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte("level=ERROR")) {
			t.Errorf("the server said: %s", line)
		}
	}
	servertest.MustBeHealthy(t, s.Store)
}

// goroutines returns the number of goroutines that the server reports.
func goroutines(s *servertest.Server, token string) int {
	s.T.Helper()
	s.HTTP.CloseIdleConnections()
	text := s.Must("GET", "/metrics", nil, nil, "Authorization", "Bearer "+token).Body
	_, rest, ok := bytes.Cut(text, []byte("\ngo_goroutines "))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.Atoi(string(line))
	if !ok || err != nil {
		s.T.Fatalf("metrics have no goroutines: %v", err)
	}
	return n
}

// backendMessages makes requests like those of a program that uses the server as its
// store.
func backendMessages(t *testing.T, instance string) func(string, string, *rand.Rand) ([]byte, map[string]string) {
	var sent atomic.Uint64
	change := func() string { // as of one program, which has at most a hundred open at a time
		n := sent.Add(1)
		return fmt.Sprintf("fuzz %d %d", n, max(n, 101)-100)
	}
	return func(operation, space string, r *rand.Rand) ([]byte, map[string]string) {
		var req remote.Request
		switch operation {
		case "POST /v1/backend/commit":
			req.Batch = []thole.Commit{{Space: space, Now: time.Now(), Writes: []thole.Write{{Key: fmt.Sprintf("app/b%d", r.IntN(9)), Value: json.RawMessage(`{"n":1}`)}}}}
		case "POST /v1/backend/load":
			at := thole.Position{Epoch: "0001aaaaaaaa", Seq: 1}
			space = fmt.Sprintf("org:load%d", r.Uint64())
			req.Space, req.Chunk = space, journal.Chunk{
				Head:    thole.Head{Space: space, Oldest: at, Last: at, Epochs: []journal.Epoch{{Name: at.Epoch, First: 1, Last: 1}}},
				Events:  []thole.Event{{Position: at, Stream: "app/x", Type: "x.y", Time: time.Unix(1_700_000_000, 0).UTC(), Actor: "user:0", Data: json.RawMessage(`{}`)}},
				Records: []thole.Record{{Key: "app/k", Value: json.RawMessage(`{}`), Version: at}}, Done: true,
			}
		case "POST /v1/backend/purge":
			req.Space, req.Purge = space, thole.Purge{Streams: []string{"app/purged"}}
		case "POST /v1/backend/get":
			req.Space, req.Names = space, []string{"app/b1", "app/b2"}
		case "POST /v1/backend/list":
			req.Space, req.List = space, thole.ListQuery{Prefix: "app/", Limit: 10}
		case "POST /v1/backend/read":
			req.Space, req.Read = space, thole.ReadQuery{Limit: 10}
		case "POST /v1/backend/heads":
			req.Names = []string{space}
		case "POST /v1/backend/spaces":
			req.Spaces = thole.SpacesQuery{Limit: 10}
		case "POST /v1/backend/broadcasts":
			req.Broadcasts = []journal.Broadcast{{Space: space, Event: thole.Event{Stream: "app/x", Type: "x.y"}}}
		default:
			return nil, nil
		}
		body, err := req.Encode()
		if err != nil {
			t.Error(err)
		}
		return body, map[string]string{
			remote.HeaderInstance: instance, remote.HeaderChange: change(), "Content-Type": remote.MediaType,
		}
	}
}

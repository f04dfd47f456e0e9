package rest_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/sqlitestore"
)

// lasting is a request that takes long.
type lasting struct {
	what, method, path string
	body               any // nil: an event stream
}

func allLasting() []lasting {
	return []lasting{
		{"a stream", "GET", "/v1/spaces/project:a/events", nil},
		{"a stream of several spaces", "GET", "/v1/events?watch=project:a,project:b", nil},
		{"a stream of hints", "GET", "/v1/backend/watch", nil},
		{"a stream of live messages", "GET", "/v1/backend/broadcasts", nil},
		{"a wait for a run", "POST", "/v1/runs/claim", map[string]any{"spaces": []string{"project:a"}, "wait_seconds": 60}},
		{"a wait for a lock", "POST", "/v1/spaces/project:a/locks", map[string]any{"name": "held", "wait": 60}},
	}
}

// open sends the request with a token of its own, and returns once it is waiting.
func (l lasting) open(t *testing.T, s *server, token auth.Token) (ended <-chan reply) {
	t.Helper()
	secret, _, err := auth.Create(t.Context(), s.store, token)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(l.body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), l.method, s.http.URL+l.path, strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	if l.body == nil {
		req.Body, req.ContentLength = nil, 0
		req.Header.Set("Accept", "text/event-stream")
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	begun, all := make(chan struct{}), make(chan reply, 1)
	go func() {
		resp, err := http.DefaultTransport.RoundTrip(req)
		close(begun)
		if err != nil {
			t.Error(err)
			all <- reply{}
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		all <- reply{resp.StatusCode, resp.Header, body}
	}()
	if l.body == nil {
		<-begun
		return all
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.store.Space("project:a").Watchers() == 0 { // requests that wait have a watch
		select {
		case r := <-all:
			t.Fatalf("%s: got %d: %s", l.what, r.status, r.body)
		case <-tick.C:
		}
	}
	return all
}

// ends waits for the end of the open requests.
func (l lasting) ends(t *testing.T, ended <-chan reply) {
	t.Helper()
	select {
	case r := <-ended:
		want := 401
		if l.body == nil {
			want = 200 // this status was sent when it began
		}
		if r.status != want {
			t.Errorf("%s: got %d, want %d: %s", l.what, r.status, want, r.body)
		}
		if !strings.Contains(l.path, "backend") && !strings.Contains(string(r.body), "unauthorized") {
			t.Errorf("%s does not say why it ends: %s", l.what, r.body)
		}
	case <-time.After(5 * time.Second): // a heartbeat is much later
		t.Errorf("%s goes on", l.what)
	}
}

var everything = []auth.Grant{{Space: "*", Access: auth.Admin}}

func TestWhatIsOpenEndsWhenItsTokenIsRevoked(t *testing.T) {
	s := serveWithTokens(t, &rest.Options{Heartbeat: time.Hour})
	s.as("user:x", everything...).want(201, nil, "POST", "/v1/spaces/project:a/locks", map[string]any{"name": "held"})
	for _, l := range allLasting() {
		ended := l.open(t, s, auth.Token{Grants: everything})
		revokeNewest(t, s.store)
		l.ends(t, ended)
	}
}

func TestWhatIsOpenEndsWhenItsTokenExpires(t *testing.T) {
	s := serveWithTokens(t, &rest.Options{Heartbeat: time.Hour})
	for _, l := range allLasting()[:5] {
		l.ends(t, l.open(t, s, auth.Token{Grants: everything, Expires: s.store.Now().Add(300 * time.Millisecond)}))
	}
}

func TestAStreamEndsWhenAnotherProcessRevokesItsToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	open := func() *thole.Store {
		b, err := sqlitestore.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		store, err := thole.Open(context.Background(), b, &thole.Options{Concepts: rest.Concepts()})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	store, other := open(), open()
	defer other.Close()
	s := serveStore(t, store, &rest.Options{Auth: auth.NewTokens(store), Heartbeat: time.Hour})
	l := allLasting()[0]
	ended := l.open(t, s, auth.Token{Grants: everything})
	revokeNewest(t, other)
	l.ends(t, ended)
}

// revokeNewest revokes the newest token.
func revokeNewest(t *testing.T, store *thole.Store) {
	t.Helper()
	all, err := auth.List(t.Context(), store, "", 0)
	if err == nil {
		err = auth.Revoke(t.Context(), store, all[len(all)-1].ID)
	}
	if err != nil {
		t.Fatal(err)
	}
}

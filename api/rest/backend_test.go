package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/journal/problem"
)

// dial opens the server as a backend.
func (s *server) dial(o *remote.Options) (*remote.Backend, error) {
	if o == nil {
		o = &remote.Options{Token: s.token}
	}
	b, err := remote.Open(s.t.Context(), s.http.URL, o)
	if err == nil {
		s.t.Cleanup(func() { b.Close() })
	}
	return b, err
}

func TestAStoreOnAServerIsTheSameStore(t *testing.T) {
	s := serveWithTokens(t, nil)
	s = s.as("user:root", auth.Grant{Space: "*", Access: auth.Admin})
	b, err := s.dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	there, err := thole.Open(t.Context(), b, &thole.Options{Concepts: rest.Concepts()})
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	here := s.store
	if there.Durability() != here.Durability() {
		t.Errorf("durability %s, want the server's %s", there.Durability(), here.Durability())
	}
	watch := func(st *thole.Store) *thole.Watch {
		w, err := st.Space("project:a").Watch(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Close)
		return w
	}
	from := map[*thole.Store]*thole.Watch{here: watch(here), there: watch(there)}
	for i, st := range []*thole.Store{here, there, here} {
		c := thole.Commit{Events: []thole.Event{{Stream: "s", Type: "a.b"}}}
		r, err := st.Space("project:a").Commit(t.Context(), c)
		if err != nil || r.Last.Seq != uint64(i+1) {
			t.Fatalf("commit %d: %+v, %v", i, r, err)
		}
		for _, w := range from {
			if got, err := w.Next(t.Context()); err != nil || len(got) != 1 || got[0].Position != r.Last {
				t.Fatalf("watch after commit %d: %v, %v; want %v", i, got, err, r.Last)
			}
		}
	}
}

func TestBroadcastsCrossAServer(t *testing.T) {
	s := serve(t, nil)
	open := func() *thole.Store {
		b, err := s.dial(nil)
		if err != nil {
			t.Fatal(err)
		}
		st, err := thole.Open(t.Context(), b, &thole.Options{Concepts: rest.Concepts()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
		return st
	}
	stores := map[string]*thole.Store{"the server": s.store, "a program": open(), "another program": open()}
	heard := make(map[string]chan string)
	for name, st := range stores {
		ch := make(chan string, 10_000)
		heard[name] = ch
		stop, err := st.Space("project:a").Subscribe(t.Context(), nil, func(d *thole.Delivery) { ch <- d.Type })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	for sender, st := range stores {
		typ := "from." + strings.ReplaceAll(sender, " ", "_")
		for name, ch := range heard {
			giveUp := time.After(20 * time.Second)
			for ok := false; !ok; { // broadcasts may be lost, above all the first ones
				if err := st.Space("project:a").Broadcast("s", typ, 1); err != nil {
					t.Fatal(err)
				}
				select {
				case got := <-ch:
					ok = got == typ
				case <-time.After(20 * time.Millisecond):
				case <-giveUp:
					t.Fatalf("%s does not hear %s", name, sender)
				}
			}
		}
	}
}

func TestAStoreOnAServerNeedsAdminGrants(t *testing.T) {
	s := serveWithTokens(t, nil)
	mine := thole.Commit{Space: "project:a", Now: time.Now(), Actor: "x", Events: []thole.Event{{Stream: "s", Type: "a.b"}}}
	other := mine
	other.Space = "project:b"
	for _, tt := range []struct {
		grant      auth.Grant
		one, every bool
	}{
		{auth.Grant{Space: "*", Access: auth.Admin}, true, true},
		{auth.Grant{Space: "project:a", Access: auth.Admin}, true, false},
		{auth.Grant{Space: "project:*", Access: auth.Write}, false, false},
		{auth.Grant{Space: "*", Access: auth.Read}, false, false},
	} {
		b, err := s.as("user:1", tt.grant).dial(nil)
		if err != nil {
			t.Fatal(err)
		}
		check := func(what string, may bool, err error) {
			t.Helper()
			if may && err != nil || !may && !errors.Is(err, problem.ErrForbidden) {
				t.Errorf("%+v: %s: got %v; may: %v", tt.grant, what, err, may)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, err = b.Commit(ctx, []thole.Commit{mine})
		check("commit", tt.one, err)
		_, err = b.Get(ctx, "project:a", "k")
		check("get", tt.one, err)
		_, err = b.List(ctx, "project:a", thole.ListQuery{})
		check("list", tt.one, err)
		_, err = b.Read(ctx, "project:a", thole.ReadQuery{})
		check("read", tt.one, err)
		_, err = b.Heads(ctx, "project:a")
		check("heads", tt.one, err)
		check("broadcast", tt.one, b.Capabilities().SendBroadcasts(ctx, []journal.Broadcast{{Origin: "o", Space: "project:a", Event: thole.Event{Stream: "s", Type: "a.b"}}}))
		_, err = b.Commit(ctx, []thole.Commit{mine, other})
		check("commit to two", tt.every, err)
		_, err = b.Heads(ctx, "project:a", "project:b")
		check("heads of two", tt.every, err)
		_, err = b.Spaces(ctx, thole.SpacesQuery{})
		check("spaces", tt.every, err)
		check("watch", tt.every, b.Capabilities().Hints(ctx, func(string) { cancel() }))
		ctx = t.Context()
		if tt.every { // it would not end
			ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
		}
		check("receive", tt.every, b.Capabilities().ReceiveBroadcasts(ctx, func(journal.Broadcast) {}))
		cancel()
		check("purge", tt.one, b.Purge(t.Context(), "project:a", thole.Purge{Streams: []string{"none"}}))
		b.Close()
	}
}

func TestWhatCannotBeUsedAsAStoreIsSaidSo(t *testing.T) {
	s := serveWithTokens(t, nil)
	answer := func(status int, contentType, body string) *server {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			w.Write([]byte(body))
		}))
		t.Cleanup(h.Close)
		return &server{t: t, http: h}
	}
	newer, _ := json.Marshal(remote.Hello{Protocol: remote.Protocol + 1, Instance: "x"})
	gone := answer(200, "text/plain", "")
	gone.http.Close()
	draining := serve(t, nil)
	draining.api.Drain()
	for name, tt := range map[string]struct {
		on   *server
		is   error
		says string
	}{
		"no token":          {s, problem.ErrUnauthorized, "THOLE_TOKEN"},
		"a web page":        {answer(200, "text/html", "<html>"), errors.ErrUnsupported, "not a Thole server"},
		"a page not found":  {answer(404, "text/html", "<html>"), errors.ErrUnsupported, "not a Thole server"},
		"another API":       {answer(404, "application/json", `{"message":"no"}`), errors.ErrUnsupported, "not a Thole server"},
		"a redirect":        {answer(302, "text/html", ""), errors.ErrUnsupported, "not a Thole server"},
		"a newer server":    {answer(200, "application/json", string(newer)), errors.ErrUnsupported, "version 2"},
		"nobody":            {gone, thole.ErrUnavailable, "cannot be reached"},
		"a proxy's failure": {answer(502, "text/html", ""), thole.ErrUnavailable, "502"},
	} {
		if _, err := tt.on.dial(nil); !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %v that says %q", name, err, tt.is, tt.says)
		}
	}
	b, err := draining.dial(&remote.Options{Retry: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	c := thole.Commit{Space: "user:1", Writes: []thole.Write{{Key: "k"}}}
	if _, err := b.Commit(t.Context(), []thole.Commit{c}); !errors.Is(err, thole.ErrUnavailable) || !strings.Contains(err.Error(), "going away") {
		t.Errorf("a draining server: got %v, want ErrUnavailable that says so", err)
	}
}

func TestARateThatIsTooHighIsWaitedOut(t *testing.T) {
	s := serve(t, &rest.Options{Rate: 5})
	b, err := s.dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 7 {
		if _, err := b.Heads(t.Context(), "user:1"); err != nil {
			t.Fatalf("heads: %v, want it to come after a wait", err)
		}
	}
	short, err := s.dial(&remote.Options{Retry: time.Millisecond})
	for range 20 {
		if err == nil {
			_, err = short.Heads(t.Context(), "user:1")
		}
	}
	if !errors.Is(err, problem.ErrRateLimited) {
		t.Errorf("without patience: got %v, want problem.ErrRateLimited", err)
	}
}

func TestAHeadRequestOpensNoStream(t *testing.T) {
	s := serve(t, nil)
	for _, path := range []string{"/v1/backend/broadcasts", "/v1/backend/watch", "/v1/events?watch=project:a", "/v1/spaces/project:a/events"} {
		s.do("HEAD", path, nil, "Accept", "text/event-stream")
		s.want(200, nil, "GET", "/healthz", nil) // on the same connection, which must be free
	}
}

// A caller of another space knows the number of a change, for example from a proxy's
// log, and uses the next number.
func TestAChangeOfAnotherCallerIsNeitherToldNorTaken(t *testing.T) {
	s := serveWithTokens(t, nil)
	ours := s.as("user:1", auth.Grant{Space: "project:a", Access: auth.Admin})
	theirs := s.as("user:eve", auth.Grant{Space: "project:b", Access: auth.Admin})
	var hello struct{ Instance string }
	ours.want(200, &hello, "GET", "/v1/backend", nil)
	change := func(s *server, n int, space, key string) reply {
		body, err := (&remote.Request{Batch: []thole.Commit{{Space: space, Now: time.Now(), Writes: []thole.Write{{Key: key, Value: []byte(`1`)}}}}}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		return s.do("POST", "/v1/backend/commit", string(body), remote.HeaderInstance, hello.Instance,
			remote.HeaderChange, fmt.Sprintf("client %d 1", n), "Content-Type", remote.MediaType)
	}
	first := change(ours, 1, "project:a", "app/first")
	if got := change(theirs, 1, "project:b", "app/eve"); got.status != 200 || string(got.body) == string(first.body) {
		t.Errorf("the same number of another caller: %d %s, want a change of its own", got.status, got.body)
	}
	change(theirs, 2, "project:b", "app/taken")
	if got := change(ours, 2, "project:a", "app/second"); got.status != 200 {
		t.Errorf("a number that another caller took: %d %s", got.status, got.body)
	}
	for _, key := range []string{"app/first", "app/second"} {
		if r, err := s.store.Space("project:a").Get(t.Context(), key); err != nil || !r.Exists() {
			t.Errorf("%s: %+v, %v; want it there", key, r, err)
		}
	}
	reader := s.as("user:eve", auth.Grant{Space: "project:b", Access: auth.Read})
	reader.refuse(400, "invalid", "POST", "/v1/backend/commit", `{"batch":[]}`+"\n", remote.HeaderInstance, hello.Instance,
		remote.HeaderChange, "client 3 1", "Content-Type", remote.MediaType)
}

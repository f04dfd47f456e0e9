package wire_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/journal"
)

// fate is what happens to one request for a change.
type fate int

const (
	answered   fate = iota
	lostAnswer      // it is carried out and the answer is lost
	lostThere       // it does not arrive
	refused         // nobody listens
)

// try is what happens to a request: its fate, and its server.
type try struct {
	fate fate
	to   *server
}

// script is a transport that treats the tries of a change as listed; the last entry
// applies to all further tries. Other requests pass.
type script struct {
	http http.Transport

	mu    sync.Mutex
	tries []try
	done  int
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.tries[0]
	if r.Header.Get(remote.HeaderChange) == "" {
		now.fate = answered
	} else {
		s.done++
		if len(s.tries) > 1 {
			s.tries = s.tries[1:]
		}
	}
	switch now.fate {
	case lostThere:
		return nil, io.ErrUnexpectedEOF
	case refused:
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	r = r.Clone(r.Context())
	r.URL.Host = now.to.Listener.Addr().String()
	res, err := s.http.RoundTrip(r)
	if now.fate == lostAnswer && err == nil {
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return res, err
}

// twoServers starts two server processes on one store, a and b, and a remote backend
// that reaches them through the script and retries for that long (0: a while).
func twoServers(t *testing.T, retry time.Duration) (a, b *server, s *script, client *remote.Backend) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "thole.db")
	a, b = serve(t, sqlite(t, path)), serve(t, sqlite(t, path))
	s = &script{tries: []try{{answered, a}}}
	client, err := remote.Open(t.Context(), a.URL, &remote.Options{Transport: s, Retry: retry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); s.http.CloseIdleConnections() })
	return a, b, s, client
}

var oneEvent = journal.Commit{Space: "user:1", Now: time.Unix(1, 0), Actor: "system", Events: []journal.Event{{Stream: "s", Type: "a.b"}}}

func (s *server) events(t *testing.T) int {
	t.Helper()
	n := 0
	for _, err := range s.store.Space("user:1").Events(t.Context(), journal.ReadQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// The test covers what may happen to the tries of one commit without an idempotency
// key.
func TestACommitWhoseRequestOrAnswerIsLostIsAppliedOnce(t *testing.T) {
	for _, tt := range []struct {
		name    string
		tries   func(a, b *server) []try
		unknown bool
		events  int // 0: what was acknowledged, 1
	}{
		{"the answer is lost", func(a, b *server) []try { return []try{{lostAnswer, a}, {answered, a}} }, false, 1},
		{"many answers are lost", func(a, b *server) []try {
			return []try{{lostAnswer, a}, {lostAnswer, a}, {lostAnswer, a}, {answered, a}}
		}, false, 1},
		{"the request is lost", func(a, b *server) []try { return []try{{lostThere, a}, {answered, a}} }, false, 1},
		{"another process answers at once", func(a, b *server) []try { return []try{{answered, b}} }, false, 1},
		{"the process is gone before it got anything", func(a, b *server) []try { return []try{{refused, a}, {refused, a}, {answered, b}} }, false, 1},
		{"a balancer goes elsewhere between", func(a, b *server) []try { return []try{{lostAnswer, a}, {answered, b}, {answered, b}, {answered, a}} }, false, 1},
		{"the process is gone with the answer", func(a, b *server) []try { return []try{{lostAnswer, a}, {answered, b}} }, true, 1},
		{"the process is gone with the request", func(a, b *server) []try { return []try{{lostThere, a}, {answered, b}} }, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b, s, client := twoServers(t, 0)
			s.tries = tt.tries(a, b)
			results, err := client.Commit(t.Context(), []journal.Commit{oneEvent})
			switch {
			case tt.unknown && (!errors.Is(err, journal.ErrUnavailable) || !strings.Contains(err.Error(), "unknown")):
				t.Errorf("got %v, want ErrUnavailable that says unknown", err)
			case !tt.unknown && (err != nil || results[0].Last.Seq != 1):
				t.Errorf("got %v, %v; want the first position", results, err)
			}
			if n := a.events(t); n != tt.events {
				t.Errorf("%d events, want %d", n, tt.events)
			}
		})
	}
}

// Without a key, the outcome is unknown if the process is gone together with the
// answer.
func TestAnIdempotencyKeyMakesEveryOutcomeKnown(t *testing.T) {
	for name, first := range map[string]fate{"the answer is lost": lostAnswer, "the request is lost": lostThere} {
		t.Run(name, func(t *testing.T) {
			a, b, s, client := twoServers(t, 0)
			store, err := thole.Open(t.Context(), client, &thole.Options{Sweep: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			s.mu.Lock()
			s.tries = []try{{first, a}, {answered, b}}
			s.mu.Unlock()
			ctx := thole.WithIdempotencyKey(t.Context(), "key", "same")
			r, err := store.Space("user:1").Commit(ctx, journal.Commit{Events: oneEvent.Events})
			if err != nil || r.First.Seq != 1 || r.Repeated != (first == lostAnswer) {
				t.Errorf("got %+v, %v; want the first position", r, err)
			}
			if n := b.events(t); n != 1 {
				t.Errorf("%d events, want 1", n)
			}
		})
	}
}

func TestALoadAndAPurgeAreCarriedOutOnce(t *testing.T) {
	a, b, s, client := twoServers(t, 0)
	at := journal.Position{Epoch: "0001aaaaaaaa", Seq: 1}
	chunk := journal.Chunk{Done: true, Head: journal.Head{Space: "user:2", Oldest: at, Last: at, Epochs: []journal.Epoch{{Name: at.Epoch, First: 1, Last: 1}}}}
	for name, do := range map[string]func() error{
		"load":  func() error { return client.Load(t.Context(), "user:2", chunk) },
		"purge": func() error { return client.Purge(t.Context(), "user:3", journal.Purge{All: true}) },
	} {
		if name == "purge" {
			c := oneEvent
			c.Space = "user:3"
			if _, err := client.Commit(t.Context(), []journal.Commit{c}); err != nil {
				t.Fatal(err)
			}
		}
		s.tries = []try{{lostAnswer, a}, {lostAnswer, a}, {answered, a}}
		if err := do(); err != nil {
			t.Errorf("%s with lost answers: %v", name, err)
		}
	}
	s.tries = []try{{lostAnswer, a}, {answered, b}}
	if err := client.Purge(t.Context(), "user:2", journal.Purge{All: true}); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("a purge by a process that is gone: got %v, want ErrUnavailable", err)
	}
}

func TestAServerThatGoesAwaySendsCommitsElsewhere(t *testing.T) {
	a, b, s, client := twoServers(t, 0)
	a.drain()
	s.tries = []try{{answered, a}, {answered, b}}
	results, err := client.Commit(t.Context(), []journal.Commit{oneEvent})
	if err != nil || results[0].Last.Seq != 1 || b.events(t) != 1 || s.done < 3 {
		t.Errorf("got %v, %v after %d tries; want the first position", results, err, s.done)
	}
}

func TestAnUnreachableServerIsSaidSoInTime(t *testing.T) {
	a, _, s, client := twoServers(t, 2*time.Second)
	s.tries = []try{{refused, a}}
	_, err := client.Commit(t.Context(), []journal.Commit{oneEvent})
	if !errors.Is(err, journal.ErrUnavailable) || !strings.Contains(err.Error(), "cannot be reached") || strings.Contains(err.Error(), "unknown") {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	s.tries = []try{{lostThere, a}}
	_, err = client.Commit(t.Context(), []journal.Commit{oneEvent})
	if !errors.Is(err, journal.ErrUnavailable) || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("when it may have arrived: got %v, want ErrUnavailable that says unknown", err)
	}
}

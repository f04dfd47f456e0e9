package rest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/rest"
)

// faulty is an authenticator with a bug in it.
type faulty struct{}

func (faulty) Authenticate(_ context.Context, secret string) (auth.Token, error) {
	if secret == "panic" {
		panic("a bug")
	}
	return auth.Token{}, errors.New("secret detail of a database")
}

func TestAPanicIsOneFailedRequestAndNoMore(t *testing.T) {
	s := serve(t, &rest.Options{Auth: faulty{}})
	for _, secret := range []string{"panic", "x"} {
		p := s.refuse(500, "internal", "GET", "/v1/spaces", nil, "Authorization", "Bearer "+secret)
		if strings.Contains(p.Detail, "secret detail") || p.RequestID == "" {
			t.Errorf("the problem discloses %q", p.Detail)
		}
	}
	s.want(200, nil, "GET", "/healthz", nil)
}

func TestShutdownFinishesRequestsAndEndsStreams(t *testing.T) {
	s := serve(t, nil)
	srv := rest.NewServer(s.api)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	c := *s
	c.http.URL = "http://" + l.Addr().String()

	w := c.watch("/v1/spaces/project:z/events")
	// The body of a request is still arriving when the server is told to end.
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"type":"app.n"}`
	fmt.Fprintf(conn, "POST /v1/spaces/project:a/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:5])
	c.want(201, nil, "POST", "/v1/spaces/project:a/locks", `{"name":"x","owner":"a"}`)
	waiting := make(chan reply, 1)
	go func() {
		waiting <- c.do("POST", "/v1/spaces/project:a/locks", `{"name":"x","owner":"b","wait":100}`)
	}()
	poll(t, "a request to wait for a lock", func() bool {
		return strings.Contains(string(c.do("GET", "/v1/spaces/project:a/locks/x", nil).body), `"waiters":[{`)
	})

	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	go func() { ended <- srv.Shutdown(ctx) }()
	if _, ok := w.next(); ok {
		t.Error("the stream goes on")
	}
	if r := <-waiting; r.status != 503 || r.problem(t).Code != "closed" {
		t.Errorf("the waiting request got %d %s, want 503 closed", r.status, r.body)
	}
	fmt.Fprint(conn, body[5:])
	resp := make([]byte, 12)
	if _, err := conn.Read(resp); err != nil || string(resp) != "HTTP/1.1 201" {
		t.Errorf("the request under way got %q, %v", resp, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve = %v", err)
	}
	if _, err := http.Get(c.http.URL + "/healthz"); err == nil {
		t.Error("connections are still accepted")
	}
}

func TestAStoreThatIsClosedIsSaidSo(t *testing.T) {
	s := serve(t, nil)
	w := s.watch("/v1/spaces/project:a/events")
	s.store.Close()
	if f, ok := w.next(); ok {
		t.Errorf("the stream goes on with %s", f.raw)
	}
	s.refuse(503, "closed", "POST", "/v1/spaces/project:a/events", `{"type":"app.n"}`)
}

package rest_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client that is refused gets the answer at once, not after its whole body has
// arrived or the time is up.
func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	s := serveWithTokens(t, nil)
	for line, status := range map[string]int{
		"POST /v1/spaces/project:a/threads":                         http.StatusUnauthorized,
		"PUT /v1/spaces/project:a/blobs/" + strings.Repeat("0", 64): http.StatusUnauthorized,
		"POST /v1/backend/commit":                                   http.StatusUnauthorized,
		"POST /nothing":                                             http.StatusNotFound,
		"GET /healthz":                                              http.StatusOK,
	} {
		conn, err := net.Dial("tcp", s.http.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{", line)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s without its body: no answer: %v", line, err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != status || !resp.Close {
			t.Errorf("%s without its body: got %d, close %v; want %d and the end of the connection", line, resp.StatusCode, resp.Close, status)
		}
	}
}

// If the body of a refused request was read, its connection stays open.
func TestARefusalAfterTheBodyKeepsTheConnection(t *testing.T) {
	s := serve(t, nil)
	if r := s.do("POST", "/v1/spaces/project:a/threads", `{"nothing":1}`); r.status != 400 || r.header.Get("Connection") == "close" {
		t.Errorf("got %d, Connection %q; want 400 on a connection that stays open", r.status, r.header.Get("Connection"))
	}
}

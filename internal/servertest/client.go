package servertest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Reply is the answer to a request.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Code returns the stable code of a problem.
func (r Reply) Code() string {
	var p struct{ Code string }
	json.Unmarshal(r.Body, &p) // no code if it is not a problem
	return p.Code
}

// Do sends a request. It encodes body as JSON unless it is nil; header alternates names
// and values. It returns an error only if there is no answer.
func (s *Server) Do(ctx context.Context, method, path string, body any, header ...string) (Reply, error) {
	return Request(ctx, s.HTTP, method, s.URL+path, body, header...)
}

func Request(ctx context.Context, client *http.Client, method, url string, body any, header ...string) (Reply, error) {
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return Reply{}, err
		}
		in = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, in)
	if err != nil {
		return Reply{}, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return Reply{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return Reply{resp.StatusCode, resp.Header, data}, err
}

// Must sends a request that must succeed, and decodes the answer into out
// unless that is nil.
func (s *Server) Must(method, path string, body, out any, header ...string) Reply {
	s.T.Helper()
	r, err := s.Do(s.T.Context(), method, path, body, header...)
	if err != nil || r.Status >= 300 {
		s.T.Fatalf("%s %s: %d %s %v\n%s", method, path, r.Status, r.Body, err, s.LogTail())
	}
	if out != nil {
		if err := json.Unmarshal(r.Body, out); err != nil {
			s.T.Fatalf("%s %s: %v in %s", method, path, err, r.Body)
		}
	}
	return r
}

// Bearer adds a token to every request.
type Bearer struct {
	Token string
	Next  http.RoundTripper
}

func (b Bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.Token)
	return b.Next.RoundTrip(r)
}

func Send(t *testing.T, client *http.Client, req *http.Request) Reply {
	t.Helper()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %.200s: %v", req.Method, req.URL, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Reply{resp.StatusCode, resp.Header, body}
}

// Dial opens a connection to the server, which the test closes at its end.
func (s *Server) Dial(t *testing.T) net.Conn {
	t.Helper()
	var d net.Dialer
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

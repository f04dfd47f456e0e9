package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// reply is an answer to a request.
type reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Code is the stable code of a problem.
func (r reply) Code() string {
	var p struct{ Code string }
	json.Unmarshal(r.Body, &p) // no problem: no code
	return p.Code
}

// Do sends a request. body is encoded as JSON unless nil; header holds names
// and values in turn. The error is that of a request without an answer.
func (s *server) Do(ctx context.Context, method, path string, body any, header ...string) (reply, error) {
	return request(ctx, s.http, method, s.URL+path, body, header...)
}

func request(ctx context.Context, client *http.Client, method, url string, body any, header ...string) (reply, error) {
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return reply{}, err
		}
		in = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, in)
	if err != nil {
		return reply{}, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, data}, err
}

// Must sends a request that must succeed, and decodes the answer into out
// unless that is nil.
func (s *server) Must(method, path string, body, out any, header ...string) reply {
	s.t.Helper()
	r, err := s.Do(s.t.Context(), method, path, body, header...)
	if err != nil || r.Status >= 300 {
		s.t.Fatalf("%s %s: %d %s %v\n%s", method, path, r.Status, r.Body, err, s.LogTail())
	}
	if out != nil {
		if err := json.Unmarshal(r.Body, out); err != nil {
			s.t.Fatalf("%s %s: %v in %s", method, path, err, r.Body)
		}
	}
	return r
}

// bearer sends every request with a token.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// converse starts a thread with one run and waits until that has succeeded.
func (s *server) converse(ctx context.Context, space, prompt string) error {
	r, err := s.Do(ctx, "POST", "/v1/spaces/"+space+"/threads", map[string]any{})
	if err != nil {
		return err
	}
	var thread struct{ ID string }
	if err := json.Unmarshal(r.Body, &thread); err != nil {
		return err
	}
	r, err = s.Do(ctx, "POST", "/v1/spaces/"+space+"/threads/"+thread.ID+"/runs", map[string]any{"prompt": prompt}, "Accept", "text/event-stream")
	if err != nil {
		return err
	}
	_, last, _ := strings.Cut(string(r.Body), "event: complete\n")
	if !strings.Contains(last, `"status":"succeeded"`) {
		return fmt.Errorf("%s: %d %s", prompt, r.Status, r.Body)
	}
	return nil
}

// frame is a frame of Server-Sent Events.
type frame struct{ ID, Event, Data string }

// watchStream hands each frame of one connection to fn until the stream or ctx
// ends, or fn returns an error, which is returned. after is the cursor to
// resume at: "-" is none, "" the oldest event.
func watchStream(ctx context.Context, client *http.Client, url, after string, fn func(frame) error) error {
	sep := "?"
	if strings.Contains(url, "?") {
		sep = "&"
	}
	if after == "" {
		url += sep + "after="
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	if after != "" && after != "-" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		return &refusedError{reply{resp.StatusCode, resp.Header, body}}
	}
	return readFrames(resp.Body, fn)
}

// refusedError is an answer to a watch that is no stream.
type refusedError struct{ reply }

func (e *refusedError) Error() string { return fmt.Sprintf("%d %s", e.Status, e.Body) }

func readFrames(body io.Reader, fn func(frame) error) error {
	r := bufio.NewReader(body)
	var f frame
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return err // what is left of a frame does not count
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			f.ID = value
		case "event":
			f.Event = value
		case "data":
			f.Data += value
		case "":
			if line != "\n" {
				continue // a comment
			}
			if f.Data != "" {
				if err := fn(f); err != nil {
					return err
				}
			}
			f = frame{}
		}
	}
}

// Events returns all events of a space, oldest first, as they are on the wire.
func (s *server) Events(space string) []event {
	s.t.Helper()
	var all []event
	for cursor := ""; ; {
		var page struct {
			Items []json.RawMessage `json:"items"`
			Next  string            `json:"next_cursor"`
		}
		s.Must("GET", "/v1/spaces/"+space+"/events?limit=1000&cursor="+cursor, nil, &page)
		for _, raw := range page.Items {
			all = append(all, decodeEvent(s.t, raw))
		}
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// event is a durable event with its text on the wire.
type event struct {
	Position, Stream, Type, Actor, Cause string
	Data                                 json.RawMessage
	text                                 string
}

func decodeEvent(t testing.TB, raw []byte) event {
	t.Helper()
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatalf("an event: %v in %s", err, raw)
	}
	e.text = string(raw)
	return e
}

// seq is the number in a position.
func seq(t testing.TB, position string) (epoch string, n uint64) {
	t.Helper()
	epoch, digits, ok := strings.Cut(position, "-")
	if _, err := fmt.Sscanf(digits, "%d", &n); !ok || err != nil || len(digits) != 16 {
		t.Fatalf("%q is not a position", position)
	}
	return epoch, n
}

package servertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Frame is a frame of Server-Sent Events.
type Frame struct{ ID, Event, Data string }

// Watch calls fn with each frame of one connection until the stream or ctx ends, or fn
// returns an error, which Watch returns. after is the cursor to resume at; "-": none,
// "": the oldest event.
func Watch(ctx context.Context, client *http.Client, url, after string, fn func(Frame) error) error {
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
		return &RefusedError{Reply{resp.StatusCode, resp.Header, body}}
	}
	return readFrames(resp.Body, fn)
}

// RefusedError is an answer to a watch that is not an event stream.
type RefusedError struct{ Reply }

func (e *RefusedError) Error() string { return fmt.Sprintf("%d %s", e.Status, e.Body) }

func readFrames(body io.Reader, fn func(Frame) error) error {
	r := bufio.NewReader(body)
	var f Frame
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return err // an incomplete frame does not count
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
			f = Frame{}
		}
	}
}

// After returns the parameter for the page after a cursor; "": the first page.
func After(cursor string) string {
	if cursor == "" {
		return ""
	}
	return "&cursor=" + cursor
}

// Events returns all events of a space, oldest first, as the server sends them.
func (s *Server) Events(space string) []Event {
	s.T.Helper()
	var all []Event
	for cursor := ""; ; {
		var page struct {
			Items []json.RawMessage `json:"items"`
			Next  string            `json:"next_cursor"`
		}
		s.Must("GET", "/v1/spaces/"+space+"/events?limit=1000"+After(cursor), nil, &page)
		for _, raw := range page.Items {
			all = append(all, decodeEvent(s.T, raw))
		}
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// Event is a durable event with its text as sent.
type Event struct {
	Position, Stream, Type, Actor, Cause string
	Data                                 json.RawMessage
	Text                                 string
}

func decodeEvent(t testing.TB, raw []byte) Event {
	t.Helper()
	var e Event
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatalf("an event: %v in %s", err, raw)
	}
	e.Text = string(raw)
	return e
}

// Seq splits a position into its epoch and its number.
func Seq(t testing.TB, position string) (epoch string, n uint64) {
	t.Helper()
	epoch, digits, ok := strings.Cut(position, "-")
	if _, err := fmt.Sscanf(digits, "%d", &n); !ok || err != nil || len(digits) != 16 {
		t.Fatalf("%q is not a position", position)
	}
	return epoch, n
}

// Watch calls fn with every frame of a path, from the oldest on, until stop is called,
// which waits for the end.
func (s *Server) Watch(path string, fn func(Frame)) (stop func()) {
	ctx, cancel := context.WithCancel(s.T.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Watch(ctx, s.HTTP, s.URL+path, "", func(f Frame) error { fn(f); return nil }) // ends with ctx
	}()
	return func() { cancel(); <-done }
}

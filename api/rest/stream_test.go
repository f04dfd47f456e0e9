package rest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/rest"
)

// frame is one event as a client sees it.
type frame struct {
	id, event string
	data      struct {
		Space    string          `json:"space"`
		Position thole.Position  `json:"position"`
		Stream   string          `json:"stream"`
		Type     string          `json:"type"`
		Actor    string          `json:"actor"`
		Cause    string          `json:"cause"`
		Code     string          `json:"code"`
		Data     json.RawMessage `json:"data"`
	}
	raw string
}

// watcher reads an event stream.
type watcher struct {
	t      *testing.T
	header http.Header
	lines  *bufio.Scanner
	cancel context.CancelFunc
	notes  []string // comments and retry lines
}

func (s *server) watch(path string, headers ...string) *watcher {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	req, err := http.NewRequestWithContext(ctx, "GET", s.http.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" { // browsers set it so
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != 200 {
		body, _ := io.ReadAll(resp.Body)
		s.t.Fatalf("GET %s: %d %s", path, resp.StatusCode, body)
	}
	s.t.Cleanup(func() { cancel(); resp.Body.Close() })
	return newWatcher(s.t, resp, cancel)
}

func newWatcher(t *testing.T, resp *http.Response, cancel context.CancelFunc) *watcher {
	w := &watcher{t: t, header: resp.Header, lines: bufio.NewScanner(resp.Body), cancel: cancel}
	w.lines.Buffer(nil, 1<<20)
	return w
}

// next returns the next event, or false at the end of the stream.
func (w *watcher) next() (f frame, ok bool) {
	w.t.Helper()
	for w.lines.Scan() {
		line := w.lines.Text()
		f.raw += line + "\n"
		field, value, _ := strings.Cut(line, ": ")
		switch field {
		case "":
			if line == "" {
				return f, true
			}
			w.notes = append(w.notes, line)
		case "id":
			f.id = value
		case "event":
			f.event = value
		case "data":
			if err := json.Unmarshal([]byte(value), &f.data); err != nil {
				w.t.Fatalf("data is not JSON: %v in %s", err, value)
			}
		default:
			w.notes = append(w.notes, line)
		}
	}
	return f, false
}

func (w *watcher) mustNext() frame {
	w.t.Helper()
	f, ok := w.next()
	if !ok {
		w.t.Fatalf("the stream ended: %v", w.lines.Err())
	}
	return f
}

func TestAnEventStreamHasTheFormatOfTheDesign(t *testing.T) {
	s := serve(t, nil)
	w := s.watch("/v1/spaces/project:a/events?after=")
	if got, ok := w.header["Thole-Position"]; ok {
		t.Errorf("Thole-Position of an empty space = %q, want none", got)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no",
	} {
		if got := w.header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	var added committed
	s.want(201, &added, "POST", "/v1/spaces/project:a/events", `{"type": "sync.file_written", "data": {"path": "a<b>.ts"}}`)
	at := added.Position
	f := w.mustNext()
	if f.id != at.String() || f.event != "sync.file_written" || f.data.Position != at || f.data.Stream != "app/events" ||
		f.data.Actor != "user:local" || !strings.HasPrefix(f.data.Cause, "sess_") || string(f.data.Data) != `{"path":"a<b>.ts"}` {
		t.Errorf("frame = %s", f.raw)
	}
	if err := s.store.Space("project:a").Broadcast("app/x", "app.tick", 1); err != nil {
		t.Fatal(err)
	}
	if f = w.mustNext(); f.id != "" || f.event != "app.tick" {
		t.Errorf("a broadcast came as %s", f.raw)
	}
	if len(w.notes) != 1 || !strings.HasPrefix(w.notes[0], "retry: ") {
		t.Errorf("beside events came %q, want one retry", w.notes)
	}
}

func TestAStreamResumesWithoutGapOrRepeat(t *testing.T) {
	s := serve(t, nil)
	var all []string
	for i := range 10 {
		all = append(all, s.addEvent("project:a", "app.n", i).String())
	}
	tests := []struct {
		query, last string
		from        int
	}{
		{"?after=", "", 0},
		{"?after=" + all[3], "", 4},
		{"", all[6], 7},
		{"?after=" + all[3], all[6], 7}, // a browser reconnects with its first URL
	}
	for _, tt := range tests {
		w := s.watch("/v1/spaces/project:a/events"+tt.query, "Last-Event-ID", tt.last)
		for i := tt.from; i < len(all); i++ {
			if got := w.mustNext().id; got != all[i] {
				t.Fatalf("%+v: event %d has id %s, want %s", tt, i, got, all[i])
			}
		}
	}
	w := s.watch("/v1/spaces/project:a/events") // from now on
	if got := w.header.Get("Thole-Position"); got != all[9] {
		t.Errorf("Thole-Position = %s, want %s", got, all[9])
	}
	next := s.addEvent("project:a", "app.n", 10).String()
	if got := w.mustNext().id; got != next {
		t.Errorf("first event from now is %s, want %s", got, next)
	}
}

func TestTypesAndChannelFilterAStream(t *testing.T) {
	s := serve(t, nil)
	byType := s.watch("/v1/spaces/project:a/events?types=app.a,sync.*")
	sync := s.watch("/v1/spaces/project:a/events?channel=sync")
	messages := s.watch("/v1/spaces/project:a/events?channel=messages")
	for _, typ := range []string{"app.a", "app.b", "message.added", "sync.x"} {
		s.addEvent("project:a", typ, nil)
	}
	expect := func(name string, w *watcher, types ...string) {
		t.Helper()
		for _, want := range types {
			if got := w.mustNext().event; got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
	}
	expect("types", byType, "app.a", "sync.x")
	expect("sync", sync, "app.a", "app.b", "sync.x")
	expect("messages", messages, "message.added")
	s.refuse(400, "invalid", "GET", "/v1/spaces/project:a/events?channel=x", nil, "Accept", "text/event-stream")
}

func TestAnIdleStreamCarriesHeartbeats(t *testing.T) {
	s := serve(t, &rest.Options{Heartbeat: 5 * time.Millisecond})
	w := s.watch("/v1/spaces/project:a/events")
	for beats := 0; beats < 3; {
		if !w.lines.Scan() {
			t.Fatalf("the stream ended: %v", w.lines.Err())
		}
		switch line := w.lines.Text(); line {
		case ": heartbeat":
			beats++
		case "":
			t.Fatal("a heartbeat ends in an empty line; it must have a single newline")
		}
	}
	s.addEvent("project:a", "app.n", 1)
	if f := w.mustNext(); f.event != "app.n" {
		t.Errorf("after heartbeats came %s", f.raw)
	}
}

func TestACursorThatIsGoneIsAProblemBeforeTheStream(t *testing.T) {
	s := serve(t, nil)
	first := s.addEvent("project:a", "app.n", 0)
	last := s.addEvent("project:a", "app.n", 1)
	sp := s.store.Space("project:a")
	if err := sp.Purge(t.Context(), thole.Purge{Before: last}); err != nil {
		t.Fatal(err)
	}
	_ = first
	beyond := last
	beyond.Seq += 10
	other := last
	other.Epoch = "0009deadbeef"
	for name, cursor := range map[string]thole.Position{"beyond": beyond, "other epoch": other} {
		p := s.refuse(410, "trimmed", "GET", "/v1/spaces/project:a/events?after="+cursor.String(), nil, "Accept", "text/event-stream")
		if p.Reason == "" || p.Last != last {
			t.Errorf("%s: problem has no reason or last: %+v", name, p)
		}
	}
	s.refuse(400, "invalid", "GET", "/v1/spaces/project:a/events?after=x", nil, "Accept", "text/event-stream")
}

func TestAStreamWhoseSpaceIsDeletedEndsWithAnErrorEvent(t *testing.T) {
	s := serve(t, nil)
	s.addEvent("project:a", "app.n", 0)
	w := s.watch("/v1/spaces/project:a/events?after=")
	w.mustNext()
	s.want(204, nil, "DELETE", "/v1/spaces/project:a", nil)
	s.addEvent("project:a", "app.n", 1) // it wakes in any case
	f := w.mustNext()
	if f.event != "error" || f.data.Code != "trimmed" || f.id != "" {
		t.Errorf("got %s, want event: error with code trimmed", f.raw)
	}
	if _, ok := w.next(); ok {
		t.Error("the stream goes on after its error")
	}
}

func TestSeveralSpacesShareOneResumableConnection(t *testing.T) {
	s := serve(t, nil)
	s.addEvent("project:a", "app.n", "a0")
	w := s.watch("/v1/events?watch=project:a,user:b&after=")
	seen := w.mustNext()
	s.addEvent("user:b", "app.n", "b0")
	cursor := w.mustNext()
	if seen.data.Space != "project:a" || cursor.data.Space != "user:b" {
		t.Fatalf("spaces are %q and %q", seen.data.Space, cursor.data.Space)
	}
	w.cancel()
	s.addEvent("project:a", "app.n", "a1")
	s.addEvent("user:b", "app.n", "b1")
	s.addEvent("project:a", "app.n", "a2")
	back := s.watch("/v1/events?watch=project:a,user:b", "Last-Event-ID", cursor.id)
	got := map[string][]string{}
	for range 3 {
		f := back.mustNext()
		got[f.data.Space] = append(got[f.data.Space], string(f.data.Data))
	}
	if a, b := strings.Join(got["project:a"], " "), strings.Join(got["user:b"], " "); a != `"a1" "a2"` || b != `"b1"` {
		t.Errorf("after resuming: a %s, b %s", a, b)
	}
	s.refuse(400, "invalid", "GET", "/v1/events", nil, "Accept", "text/event-stream")
	s.refuse(400, "invalid", "GET", "/v1/events?watch=project:a&after=x", nil, "Accept", "text/event-stream")
	s.refuse(406, "invalid", "GET", "/v1/events?watch=project:a", nil)
}

func TestAClientThatStopsReadingIsDroppedAndNobodyWaits(t *testing.T) {
	s := serve(t, &rest.Options{Stall: 2 * time.Second})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.http.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	io.WriteString(conn, "GET /v1/spaces/project:a/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
	sp := s.store.Space("project:a")
	poll(t, "the slow watcher to attach", func() bool { return sp.Watchers() == 1 })
	other := s.watch("/v1/spaces/project:a/events")
	big := strings.Repeat("x", 256<<10)
	const n = 80 // 20 MiB: more than any socket buffer holds
	for range n {
		if _, err := sp.Commit(t.Context(), thole.Commit{Events: []thole.Event{{Stream: "app/x", Type: "app.big", Data: json.RawMessage(`"` + big + `"`)}}}); err != nil {
			t.Fatal(err)
		}
		other.mustNext()
	}
	poll(t, "the slow watcher to be dropped", func() bool { return sp.Watchers() == 1 })
	poll(t, "it to be counted", func() bool {
		return strings.Contains(string(s.do("GET", "/metrics", nil).body), "\nthole_watchers_dropped_total 1\n")
	})
}

func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestTheWatchersOfASpaceAreBounded(t *testing.T) {
	s := serve(t, &rest.Options{MaxWatchers: 2})
	first := s.watch("/v1/spaces/project:a/events")
	s.watch("/v1/events?watch=project:a,project:b")
	s.refuse(429, "rate_limited", "GET", "/v1/spaces/project:a/events", nil, "Accept", "text/event-stream")
	s.watch("/v1/spaces/project:b/events")
	first.cancel()
	sp := s.store.Space("project:a")
	poll(t, "a watcher to go", func() bool { return sp.Watchers() == 1 })
	s.watch("/v1/spaces/project:a/events")
}

func TestDrainingEndsStreamsAndReadiness(t *testing.T) {
	s := serve(t, nil)
	s.want(200, nil, "GET", "/readyz", nil)
	w := s.watch("/v1/spaces/project:a/events")
	s.api.Retire()
	s.want(503, nil, "GET", "/readyz", nil)
	s.want(201, nil, "POST", "/v1/spaces/project:a/events", map[string]any{"type": "app.x"})
	if f, ok := w.next(); !ok {
		t.Errorf("a stream ended before the drain: %s", f.raw)
	}
	s.api.Drain()
	if f, ok := w.next(); ok {
		t.Errorf("got %s, want the end", f.raw)
	}
	if len(w.notes) != 2 || !strings.HasPrefix(w.notes[1], ": ") {
		t.Errorf("notes are %q, want retry and a comment", w.notes)
	}
	s.want(503, nil, "GET", "/readyz", nil)
	s.want(200, nil, "GET", "/healthz", nil)
	s.want(200, nil, "GET", "/v1/spaces", nil)
}

func TestANarrowedGrantSeesOnlyItsThreads(t *testing.T) {
	s := serveWithTokens(t, nil)
	const mine, other = "thrd_000000000000000000000000000000aa", "thrd_000000000000000000000000000000bb"
	sp := s.store.Space("project:a")
	add := func(stream string) {
		t.Helper()
		if _, err := sp.Commit(t.Context(), thole.Commit{Events: []thole.Event{{Stream: stream, Type: "app.x"}}}); err != nil {
			t.Fatal(err)
		}
	}
	head := thole.Write{Key: "thread/" + mine, Value: json.RawMessage(`{"visibility":"space"}`)}
	if _, err := sp.Commit(t.Context(), thole.Commit{Writes: []thole.Write{head}}); err != nil {
		t.Fatal(err)
	}
	narrow := s.as("user:1", auth.Grant{Space: "project:a", Access: auth.Write, Threads: []string{mine}})
	w := narrow.watch("/v1/spaces/project:a/events?after=")
	many := narrow.watch("/v1/events?watch=project:a&after=")
	for _, stream := range []string{"app/events", "thread/" + other, "decision", "thread/" + mine + "x", "thread/" + mine} {
		add(stream)
	}
	for _, w := range []*watcher{w, many} {
		if f := w.mustNext(); f.data.Stream != "thread/"+mine {
			t.Errorf("leaked %s", f.raw)
		}
	}
	var page struct {
		Items []struct{ Stream string } `json:"items"`
	}
	narrow.want(200, &page, "GET", "/v1/spaces/project:a/events", nil)
	if len(page.Items) != 1 || page.Items[0].Stream != "thread/"+mine {
		t.Errorf("page leaked %+v", page.Items)
	}
	narrow.refuse(403, "forbidden", "GET", "/v1/spaces/project:a/events?stream=decision", nil)
	narrow.refuse(403, "forbidden", "GET", "/v1/spaces/project:a/events?stream=decision", nil, "Accept", "text/event-stream")
	narrow.refuse(403, "forbidden", "POST", "/v1/spaces/project:a/events", map[string]any{"type": "app.x"})
	narrow.refuse(403, "forbidden", "GET", "/v1/spaces/project:b/events", nil)
	narrow.refuse(403, "forbidden", "GET", "/v1/events?watch=project:a,project:b", nil, "Accept", "text/event-stream")
}

func TestARevokedTokenLosesItsOpenStream(t *testing.T) {
	s := serveWithTokens(t, &rest.Options{Heartbeat: 5 * time.Millisecond})
	secret, tok, err := auth.Create(t.Context(), s.store, auth.Token{Grants: []auth.Grant{{Space: "*", Access: auth.Read}}})
	if err != nil {
		t.Fatal(err)
	}
	s.token = secret
	w := s.watch("/v1/spaces/project:a/events")
	if err := auth.Revoke(t.Context(), s.store, tok.ID); err != nil {
		t.Fatal(err)
	}
	if f, ok := w.next(); !ok || f.event != "error" || f.data.Code != "unauthorized" {
		t.Errorf("got %v %s, want event: error with code unauthorized", ok, f.raw)
	}
}

func TestARevokedTokenLosesAStreamThatIsNeverIdle(t *testing.T) {
	s := serveWithTokens(t, &rest.Options{Heartbeat: 100 * time.Millisecond})
	secret, tok, err := auth.Create(t.Context(), s.store, auth.Token{Grants: []auth.Grant{{Space: "*", Access: auth.Read}}})
	if err != nil {
		t.Fatal(err)
	}
	s.token = secret
	w := s.watch("/v1/spaces/project:a/events")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		tick := time.NewTicker(time.Millisecond) // far more often than heartbeats
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			if err := s.store.Space("project:a").Broadcast("app/x", "app.tick", 1); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	w.mustNext()
	if err := auth.Revoke(t.Context(), s.store, tok.ID); err != nil {
		t.Fatal(err)
	}
	var last frame
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		f, ok := w.next()
		if !ok {
			break
		}
		last = f
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if last.event != "error" || last.data.Code != "unauthorized" {
		t.Errorf("the last that came is %s, want event: error with code unauthorized", last.raw)
	}
}

//go:build linux

package main_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/servertest"
)

// Nobody reads from the event streams while 100 MB of events are committed.
func TestAClientThatStopsReadingHoldsUpNobody(t *testing.T) {
	servertest.Faults(t)
	t.Parallel() // it mostly waits
	s := servertest.Start(t, servertest.Setup{})
	const space, events, size, deaf = "/v1/spaces/project:deaf", 500, 200_000, 20
	for range deaf {
		conn := s.Dial(t)
		conn.(*net.TCPConn).SetReadBuffer(4096)
		if _, err := io.WriteString(conn, "GET "+space+"/events?after= HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(chan string, events)
	stop := s.Watch(space+"/events", func(f servertest.Frame) { seen <- f.ID })
	defer stop()
	servertest.Eventually(t, 10*time.Second, "all watch", func() bool { return s.Metric("thole_watchers") == deaf+1 })
	before, slowest := s.Memory(), time.Duration(0)
	peak := before
	for n := range events {
		begin := time.Now()
		s.Must("POST", space+"/events", map[string]any{"type": "app.loud", "data": strings.Repeat("x", size)}, nil)
		slowest = max(slowest, time.Since(begin))
		select {
		case id := <-seen:
			if _, at := servertest.Seq(t, id); at != uint64(n+1) {
				t.Fatalf("event %d: got %s", n+1, id)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("event %d did not reach the client that reads", n+1)
		}
		if n%50 == 0 {
			peak = max(peak, s.Memory())
		}
	}
	servertest.Eventually(t, 60*time.Second, "those who do not read are dropped", func() bool { return s.Metric("thole_watchers") == 1 })
	if got := s.Metric("thole_watchers_dropped_total"); got != deaf {
		t.Errorf("watchers dropped: got %v, want %d", got, deaf)
	}
	t.Logf("%d MB went by; memory %d MiB before, %d at most; slowest write %v", events*size>>20, before, peak, slowest)
	most := 100
	if effort.Race {
		most *= 3 // it needs memory for each byte
	}
	if peak > before+most {
		t.Errorf("memory: got %d MiB, %d before; %d clients that do not read must not hold what they miss", peak, before, deaf)
	}
	s.Terminate()
}

// Only the first bytes of requests are sent.
func TestABodyThatNeverComesIsGivenUp(t *testing.T) {
	servertest.Faults(t)
	t.Parallel() // it mostly waits
	s := servertest.Start(t, servertest.Setup{})
	for name, c := range map[string]struct {
		method string
		status int // 0: the connection may end without an answer
	}{"expected": {"POST", 408}, "not expected": {"GET", 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := s.Dial(t)
			if _, err := io.WriteString(conn, c.method+" /v1/spaces/project:slow/threads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{\"ti"); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(conn)
			resp, err := http.ReadResponse(in, nil)
			if c.status == 0 && err != nil {
				if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
					t.Fatal("the connection was kept for more than a minute")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if c.status != 0 {
				mustBeProblem(t, servertest.Reply{Status: resp.StatusCode, Header: resp.Header, Body: body}, c.status, "invalid")
			}
			if _, err := in.ReadByte(); err == nil {
				t.Error("the connection stays open")
			}
		})
	}
}

//go:build faults && linux

package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// metric reads one number from /metrics; a missing one is 0.
func (s *server) metric(name string) float64 {
	s.t.Helper()
	text := s.Must("GET", "/metrics", nil, nil).Body
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	if m == nil {
		return 0
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// memory is what the server's process holds, in MiB.
func (s *server) memory() int {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	kb, err := strconv.Atoi(string(m[1]))
	if err != nil {
		s.t.Fatal(err)
	}
	return kb >> 10
}

// TestAClientThatStopsReadingHoldsUpNobody opens event streams and reads none
// of them, while 100 MB of events go by.
func TestAClientThatStopsReadingHoldsUpNobody(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := startServer(t, setup{})
	const space, events, size, deaf = "/v1/spaces/project:deaf", 500, 200_000, 20
	for range deaf {
		conn := s.dial(t)
		conn.(*net.TCPConn).SetReadBuffer(4096)
		if _, err := io.WriteString(conn, "GET "+space+"/events?after= HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(chan string, events)
	stop := s.watch(space+"/events", func(f frame) { seen <- f.ID })
	defer stop()
	eventually(t, 10*time.Second, "all watch", func() bool { return s.metric("thole_watchers") == deaf+1 })
	before, slowest := s.memory(), time.Duration(0)
	peak := before
	for n := range events {
		begin := time.Now()
		s.Must("POST", space+"/events", map[string]any{"type": "app.loud", "data": strings.Repeat("x", size)}, nil)
		slowest = max(slowest, time.Since(begin))
		select {
		case id := <-seen:
			if _, at := seq(t, id); at != uint64(n+1) {
				t.Fatalf("event %d: got %s", n+1, id)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("event %d did not reach the client that reads", n+1)
		}
		if n%50 == 0 {
			peak = max(peak, s.memory())
		}
	}
	eventually(t, 60*time.Second, "those who do not read are dropped", func() bool { return s.metric("thole_watchers") == 1 })
	if got := s.metric("thole_watchers_dropped_total"); got != deaf {
		t.Errorf("watchers dropped: got %v, want %d", got, deaf)
	}
	t.Logf("%d MB went by; memory %d MiB before, %d at most; slowest write %v", events*size>>20, before, peak, slowest)
	most := 100
	if underRace() {
		most *= 3 // it needs memory for each byte
	}
	if peak > before+most {
		t.Errorf("memory: got %d MiB, %d before; %d clients that do not read must not hold what they miss", peak, before, deaf)
	}
	s.Terminate()
}

// TestABodyThatNeverComesIsGivenUp sends the first bytes of requests only.
func TestABodyThatNeverComesIsGivenUp(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := startServer(t, setup{})
	for name, c := range map[string]struct {
		method string
		status int // 0: the connection may end without an answer
	}{"expected": {"POST", 408}, "not expected": {"GET", 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := s.dial(t)
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
				mustBeProblem(t, reply{resp.StatusCode, resp.Header, body}, c.status, "invalid")
			}
			if _, err := in.ReadByte(); err == nil {
				t.Error("the connection stays open")
			}
		})
	}
}

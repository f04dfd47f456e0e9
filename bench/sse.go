package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// watchers is how many subscribers the SSE cases have.
const watchers = 1000

// payloadSize is what one event carries.
const payloadSize = 300

// payload carries the time it was sent, in Unix nanoseconds, behind a mark that
// a reader finds without parsing.
func payload() []byte {
	b := fmt.Appendf(make([]byte, 0, payloadSize), `{"sent":"@%d","fill":"`, time.Now().UnixNano())
	for len(b) < payloadSize-2 {
		b = append(b, 'x')
	}
	return append(b, '"', '}')
}

// sse measures fan-out of a server process of the given kind to 1,000
// watchers: at perSecond messages a second, or as fast as it goes when that is
// zero. The rate is deliveries per second; the latencies are from before the
// message was published to when a watcher has it.
func sse(kind string, perSecond int) func(context.Context, string, time.Duration) (sample, error) {
	return func(ctx context.Context, dir string, d time.Duration) (sample, error) {
		srv, err := startServer(ctx, kind, dir)
		if err != nil {
			return sample{}, err
		}
		defer srv.stop()
		before := srv.memory()
		crowd, err := gather(srv.addr, srv.path, watchers)
		if err != nil {
			return sample{}, err
		}
		defer crowd.leave()
		idle := (srv.memory() - before) / watchers
		crowd.listen()
		began := time.Now()
		sent, err := srv.publish(perSecond, d)
		if err != nil {
			return sample{}, err
		}
		if err := crowd.await(int64(sent) * watchers); err != nil {
			return sample{}, err
		}
		took := time.Since(began)
		s := crowd.latencies()
		s.rate = float64(sent) * watchers / took.Seconds()
		s.extra = fmt.Sprintf("%d kB per idle watcher", idle>>10)
		return s, nil
	}
}

// server is a child process that serves SSE.
type server struct {
	cmd        *exec.Cmd
	stdin      io.Closer
	addr, path string
}

func startServer(ctx context.Context, kind, dir string) (*server, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe, "-serve", kind, "-dir", dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd: cmd, stdin: in}
	if _, err := fmt.Fscan(out, &s.addr, &s.path); err != nil {
		s.stop()
		return nil, fmt.Errorf("the %s server said nothing: %w", kind, err)
	}
	return s, nil
}

func (s *server) stop() {
	s.stdin.Close()
	_ = s.cmd.Wait() // its exit code says nothing that the measurement did not
}

// memory is the server's resident set in bytes, after a garbage collection.
func (s *server) memory() int {
	resp, err := http.Post("http://"+s.addr+"/bench/gc", "", nil)
	if err == nil {
		resp.Body.Close()
	}
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	kb, _ := strconv.Atoi(strings.Fields(rest + " 0")[0])
	return kb << 10
}

// publish makes the server send and returns how many messages it sent.
func (s *server) publish(perSecond int, d time.Duration) (int, error) {
	resp, err := http.Post(fmt.Sprintf("http://%s/bench/publish?rate=%d&for=%s", s.addr, perSecond, d), "", nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// crowd is many watchers in this process.
type crowd struct {
	conns []net.Conn
	got   atomic.Int64
	mu    sync.Mutex
	times []time.Duration
	wg    sync.WaitGroup
}

func gather(addr, path string, n int) (*crowd, error) {
	c := &crowd{}
	for range n {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			c.leave()
			return nil, err
		}
		c.conns = append(c.conns, conn)
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n", path)
		// The answer's beginning has come when the first frame has.
		var seen []byte
		one := make([]byte, 512)
		for !bytes.Contains(seen, []byte("retry:")) {
			k, err := conn.Read(one)
			if err != nil {
				c.leave()
				return nil, fmt.Errorf("watcher: %w after %q", err, seen)
			}
			seen = append(seen, one[:k]...)
			if !bytes.HasPrefix(seen, []byte("HTTP/1.1 200")) {
				c.leave()
				return nil, fmt.Errorf("watcher: refused: %.300s", seen)
			}
		}
	}
	return c, nil
}

func (c *crowd) leave() {
	for _, conn := range c.conns {
		conn.Close()
	}
	c.wg.Wait()
}

func (c *crowd) listen() {
	for _, conn := range c.conns {
		c.wg.Go(func() { c.read(conn) })
	}
}

// read counts frames and keeps one latency in sixteen.
func (c *crowd) read(conn net.Conn) {
	buf := make([]byte, 16<<10)
	fill := 0
	var mine []time.Duration
	for n := 0; ; {
		k, err := conn.Read(buf[fill:])
		if err != nil {
			break
		}
		now := time.Now().UnixNano()
		data := buf[:fill+k]
		for {
			i := bytes.IndexByte(data, '@')
			if i < 0 || len(data) < i+20 {
				break
			}
			if n++; n%16 == 0 {
				sent, _ := strconv.ParseInt(string(data[i+1:i+20]), 10, 64)
				mine = append(mine, time.Duration(now-sent))
			}
			c.got.Add(1)
			data = data[i+20:]
		}
		if i := bytes.IndexByte(data, '@'); i >= 0 {
			fill = copy(buf, data[i:])
		} else {
			fill = 0
		}
	}
	c.mu.Lock()
	c.times = append(c.times, mine...)
	c.mu.Unlock()
}

// await waits until n frames came, as long as some come.
func (c *crowd) await(n int64) error {
	for last, quiet := int64(-1), 0; c.got.Load() < n; {
		time.Sleep(time.Millisecond)
		if now := c.got.Load(); now != last {
			last, quiet = now, 0
		} else if quiet++; quiet > 10_000 {
			return errors.New("the watchers got " + strconv.FormatInt(last, 10) + " of " + strconv.FormatInt(n, 10))
		}
	}
	return nil
}

// latencies ends the crowd and sums up.
func (c *crowd) latencies() sample {
	c.leave()
	slices.Sort(c.times)
	if len(c.times) == 0 {
		return sample{}
	}
	return sample{p50: c.times[len(c.times)/2], p99: c.times[len(c.times)*99/100]}
}

package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/internal/servertest"
)

// cluster is several `thole serve` processes on one store. Each keeps its address when
// it restarts.
type cluster struct {
	t       testing.TB
	Members []*servertest.Server
	URLs    []string // of the members
	Token   string   // an admin's
	HTTP    *http.Client

	clients atomic.Int64
}

// startCluster starts a process on each of the DSNs, which all lead to one store.
func startCluster(t testing.TB, dsns []string, args ...string) *cluster {
	t.Helper()
	var created struct{ Secret string }
	out, err := servertest.CLI(t.Context(), "token", "create", "cluster", "--grant", "*=admin", "--store", dsns[0], "--json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &created)
	}
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	c := &cluster{t: t, Token: created.Secret, HTTP: &http.Client{Transport: servertest.Bearer{Token: created.Secret, Next: transport}}}
	t.Cleanup(transport.CloseIdleConnections)
	for i, dsn := range dsns {
		addr := fixedAddr(t)
		s := &servertest.Server{
			T: t, Dir: t.TempDir(), Store: dsn, HTTP: c.HTTP,
			Args: append([]string{"serve", "--store", dsn, "--listen", addr}, args...),
		}
		s.Log = filepath.Join(s.Dir, fmt.Sprintf("server%d.log", i+1))
		t.Cleanup(s.Kill)
		s.Start()
		c.Members = append(c.Members, s)
		c.URLs = append(c.URLs, s.URL)
	}
	return c
}

// same returns dsn n times.
func same(dsn string, n int) (all []string) {
	for range n {
		all = append(all, dsn)
	}
	return all
}

// fixedAddr returns an address that nobody listens on, below the ports that the system
// uses for outgoing connections, so that it stays free during restarts.
func fixedAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		addr := "127.0.0.1:" + strconv.Itoa(10000+rand.IntN(10000))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// client is a client of a cluster: it repeats a change, with the next member, until it
// knows the result. It is for one goroutine.
type client struct {
	*cluster
	id       int64
	at       int // the member it talks to
	sent     int // changes
	Patience time.Duration

	Retries int            // requests that got no final answer
	Answers map[string]int // the answers to those
	Longest time.Duration  // the longest time of a request
}

// patience is how long a client waits for an answer before it asks another member.
const patience = 10 * time.Second

func (c *cluster) client() *client {
	id := c.clients.Add(1)
	return &client{cluster: c, id: id, at: int(id) % len(c.URLs), Patience: patience, Answers: map[string]int{}}
}

// once sends a request to the current member. It reports whether the answer is final;
// if not, the client turns to the next member.
func (c *client) once(ctx context.Context, method, path string, body any, header ...string) (servertest.Reply, bool, error) {
	limited, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	begin := time.Now()
	r, err := servertest.Request(limited, c.HTTP, method, c.URLs[c.at]+path, body, header...)
	c.Longest = max(c.Longest, time.Since(begin))
	if err == nil && r.Status != http.StatusServiceUnavailable {
		return r, true, nil
	}
	answer := fmt.Sprint(r.Status, " ", r.Code())
	if err != nil {
		answer = "none"
	}
	c.Answers[answer]++
	c.at = (c.at + 1) % len(c.URLs)
	c.Retries++
	return r, false, err
}

// Send sends a request until its answer is final, each time under the same
// idempotency key. The error is ctx's.
func (c *client) Send(ctx context.Context, method, path string, body any, header ...string) (servertest.Reply, error) {
	if method != http.MethodGet {
		c.sent++
		header = append(header, "Idempotency-Key", fmt.Sprintf("client-%d-%d", c.id, c.sent))
	}
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		r, final, _ := c.once(ctx, method, path, body, header...)
		if final {
			return r, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return servertest.Reply{}, ctx.Err()
		}
	}
}

// Must is Send of a request that must succeed; it decodes the answer into out unless
// that is nil. It returns false if ctx ended first.
func (c *client) Must(ctx context.Context, method, path string, body, out any, header ...string) (servertest.Reply, bool) {
	r, err := c.Send(ctx, method, path, body, header...)
	if err != nil {
		return r, false
	}
	if r.Status >= 300 {
		c.t.Errorf("%s %s: %d %s", method, path, r.Status, r.Body)
		return r, false
	}
	if out != nil {
		if err := json.Unmarshal(r.Body, out); err != nil {
			c.t.Errorf("%s %s: %v in %s", method, path, err, r.Body)
			return r, false
		}
	}
	return r, true
}

// clusterStore returns the DSN of a new store that several processes share.
func clusterStore(t testing.TB) string {
	t.Helper()
	return pgtest.Start(t).Database(t)
}

// restart starts a member again, as a supervisor does: until it runs.
func (c *cluster) restart(i int) {
	c.t.Helper()
	servertest.Eventually(c.t, 30*time.Second, fmt.Sprintf("server %d starts again", i+1), func() bool { return c.Members[i].TryStart() == nil })
}

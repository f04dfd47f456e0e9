package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/servertest"
)

// balancer is a minimal load balancer: it asks every member whether it is ready and
// passes requests to the ready ones, in turn. It repeats nothing.
type balancer struct {
	URL   string
	ready []atomic.Bool
	next  atomic.Int64
	to    []*httputil.ReverseProxy
}

// checkInterval is how often the balancer asks. Members continue to serve for several
// times as long.
const checkInterval = 100 * time.Millisecond

func startBalancer(t testing.TB, c *cluster) *balancer {
	t.Helper()
	b := &balancer{ready: make([]atomic.Bool, len(c.URLs))}
	transport := &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
	for _, member := range c.URLs {
		to, err := url.Parse(member)
		if err != nil {
			t.Fatal(err)
		}
		b.to = append(b.to, &httputil.ReverseProxy{
			Transport: transport,
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
			ErrorLog:  log.New(io.Discard, "", 0), // clients report errors
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	var checks sync.WaitGroup
	for i := range c.URLs {
		checks.Go(func() { b.check(ctx, c, i) })
	}
	front := httptest.NewServer(b)
	b.URL = front.URL
	t.Cleanup(func() {
		cancel()
		checks.Wait()
		front.CloseClientConnections()
		front.Close()
		transport.CloseIdleConnections()
	})
	servertest.Eventually(t, 10*time.Second, "all members are ready", func() bool { return b.count() == len(b.ready) })
	return b
}

// check records whether a member is ready until ctx ends.
func (b *balancer) check(ctx context.Context, c *cluster, i int) {
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		r, err := servertest.Request(limited, c.HTTP, "GET", c.URLs[i]+"/readyz", nil)
		cancel()
		b.ready[i].Store(err == nil && r.Status == http.StatusOK)
		pauseFor(ctx, checkInterval)
	}
}

func (b *balancer) count() (n int) {
	for i := range b.ready {
		if b.ready[i].Load() {
			n++
		}
	}
	return n
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for range b.to {
		if i := int(b.next.Add(1)) % len(b.to); b.ready[i].Load() {
			b.to[i].ServeHTTP(w, r)
			return
		}
	}
	http.Error(w, "no member is ready", http.StatusBadGateway)
}

func TestARollingRestartFailsNoRequestAndCostsAWatcherNothing(t *testing.T) {
	servertest.Faults(t)
	c := startCluster(t, same(clusterStore(t), 3), "--drain-delay", (30 * checkInterval).String())
	b := startBalancer(t, c)
	front := &cluster{t: t, Members: c.Members, URLs: []string{b.URL}, Token: c.Token, HTTP: c.HTTP}
	const space = "project:rolling"
	watchers, _ := front.watchAround(t, space, 6)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := newLedger()
	var wg sync.WaitGroup
	var requests, failed atomic.Int64
	for range 12 {
		client := front.client()
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				requests.Add(1)
				if err := writeOnce(l, client, space, fmt.Sprintf("%d.%d", client.id, n)); err != nil {
					failed.Add(1)
					t.Errorf("a request during a rolling restart: %v", err)
				}
			}
		})
	}
	rounds := effort.Amount(1, 1, 3)
	for range rounds {
		for i, s := range c.Members {
			s.Terminate()
			s.Start()
			servertest.Eventually(t, 10*time.Second, fmt.Sprintf("the balancer finds server %d again", i+1), b.ready[i].Load)
		}
	}
	cancel()
	wg.Wait()
	journal := c.consistent(t, space)
	dense(t, space, journal)
	l.compare(t, space, journal)
	streams := 0
	for _, w := range watchers {
		w.sawAll(t, journal)
		streams += w.opened()
	}
	t.Logf("%d restarts: %d requests, %d failed; %d watchers saw all %d events in order over %d streams",
		rounds*len(c.Members), requests.Load(), failed.Load(), len(watchers), len(journal), streams)
}

// writeOnce adds an entry with one request, which nobody repeats.
func writeOnce(l *ledger, c *client, space, entry string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var at struct{ First string }
	r, err := servertest.Request(ctx, c.HTTP, "POST", c.URLs[0]+"/v1/spaces/"+space+"/events", map[string]any{"type": "ledger.entry", "data": map[string]string{"entry": entry}})
	if err == nil && r.Status == http.StatusCreated {
		err = json.Unmarshal(r.Body, &at)
	} else if err == nil {
		err = fmt.Errorf("%d %s", r.Status, r.Body)
	}
	if err == nil {
		l.note(c.t, space, at.First, entry)
	}
	return err
}

func TestReadinessGoesOffAWhileBeforeAnythingEnds(t *testing.T) {
	servertest.Faults(t)
	const delay = 6 * time.Second
	c := startCluster(t, same(clusterStore(t), 1), "--drain-delay", delay.String())
	s := c.Members[0]
	ended := make(chan error, 1)
	open := make(chan bool, 1)
	go func() {
		ended <- servertest.Watch(t.Context(), c.HTTP, s.URL+"/v1/spaces/project:a/events", "", func(servertest.Frame) error { open <- true; return nil })
	}()
	write := func() { s.Must("PUT", "/v1/spaces/project:a/kv/a/b", map[string]any{"data": 1}, nil) }
	write()
	<-open
	begin := time.Now()
	s.Signal(syscall.SIGTERM)
	servertest.Eventually(t, delay/2, "/readyz says 503", func() bool {
		r, err := s.Do(t.Context(), "GET", "/readyz", nil)
		return err == nil && r.Status == http.StatusServiceUnavailable
	})
	for time.Since(begin) < delay/2 {
		write()
		<-open
	}
	if err := <-ended; !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || time.Since(begin) < delay {
		t.Errorf("the stream ended after %v: %v; want a good end after %v", time.Since(begin), err, delay)
	}
	if code := s.Wait(10 * time.Second); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.LogTail())
	}
}

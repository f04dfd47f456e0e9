package wire_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/journal"
)

// cutter is a proxy that breaks each connection after a random number of bytes,
// in either direction.
type cutter struct {
	target string
	cuts   atomic.Int64

	mu   sync.Mutex
	rand *rand.Rand
}

// cut listens until the end of the test and returns the proxy and its URL.
func cut(t testing.TB, target string, seed uint64) (*cutter, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{target: target, rand: rand.New(rand.NewPCG(seed, seed))}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { c.pass(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return c, "http://" + l.Addr().String()
}

// pass forwards one connection until its number of bytes is reached.
func (c *cutter) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer server.Close()
	c.mu.Lock()
	left := &atomic.Int64{}
	left.Store(c.rand.Int64N(6000))
	c.mu.Unlock()
	var both sync.WaitGroup
	forward := func(to, from net.Conn) {
		buf := make([]byte, 512)
		for {
			n, err := from.Read(buf)
			rest := left.Add(-int64(n))
			if rest < 0 {
				n = max(0, n+int(rest))
			}
			to.Write(buf[:n])
			if rest < 0 {
				c.cuts.Add(1)
			}
			if err != nil || rest < 0 {
				to.Close()
				from.Close()
				return
			}
		}
	}
	both.Go(func() { forward(server, client) })
	both.Go(func() { forward(client, server) })
	both.Wait()
}

// A client commits through a proxy that breaks connections at random bytes: every
// commit succeeds and is applied once.
func TestConnectionsThatBreakAnywhereLoseAndDoubleNothing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := serve(t, memstore.New())
	proxy, url := cut(t, s.Listener.Addr().String(), seed)
	var b *remote.Backend
	for b == nil { // the first request is not retried
		b, _ = remote.Open(t.Context(), url, &remote.Options{Timeout: 5 * time.Second})
	}
	defer b.Close()

	const workers, each = 8, 150
	errs := make(chan error, workers)
	for w := range workers {
		go func() {
			at := journal.Position{}
			stream := fmt.Sprint("s", w)
			for i := range each {
				results, err := b.Commit(t.Context(), []journal.Commit{{
					Space: "user:1", Now: time.Now(), Actor: "system", Checks: []journal.Check{{Stream: stream, At: at}},
					Events: []journal.Event{{Stream: stream, Type: "a.b", Data: fmt.Appendf(nil, "%d", i)}},
				}})
				if err == nil && results[0].Conflict != nil {
					err = results[0].Conflict // it conflicts with itself
				}
				if err != nil {
					errs <- fmt.Errorf("worker %d, commit %d: %w", w, i, err)
					return
				}
				at = results[0].Last
			}
			errs <- nil
		}()
	}
	for range workers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	next := make(map[string]int)
	seq := uint64(0)
	for q := (journal.ReadQuery{}); ; {
		page, err := s.store.Backend().Read(t.Context(), "user:1", q) // a page would not get through the proxy
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			if seq++; e.Position.Seq != seq || string(e.Data) != fmt.Sprint(next[e.Stream]) {
				t.Fatalf("event %d of the journal: got %s at %s in %s, want %d", seq, e.Data, e.Position, e.Stream, next[e.Stream])
			}
			next[e.Stream]++
		}
		if page.Next.IsZero() {
			break
		}
		q.After = page.Next
	}
	if seq != workers*each || proxy.cuts.Load() < 50 {
		t.Errorf("%d events and %d cuts; want %d and at least 50", seq, proxy.cuts.Load(), workers*each)
	}
	t.Logf("%d connections were cut", proxy.cuts.Load())
}

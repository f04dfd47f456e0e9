package servertest

import (
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Proxy is a TCP proxy that cuts its first connections after a random number of
// bytes of the answer. Its address stays the same when the server's changes.
type Proxy struct {
	l    net.Listener
	URL  string
	wg   sync.WaitGroup
	want int // cuts

	mu     sync.Mutex
	target string
	cuts   int // so far
	open   map[net.Conn]bool
	Done   chan struct{} // closed with the last cut
}

// maxCut is the largest part of an answer that passes before a cut: about 40 events.
const maxCut = 16 << 10

func StartProxy(t *testing.T, cuts int) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{l: l, URL: "http://" + l.Addr().String(), want: cuts, open: map[net.Conn]bool{}, Done: make(chan struct{})}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for c := range p.open {
			c.Close()
		}
		p.open = nil
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

// To makes new connections lead to a server.
func (p *Proxy) To(s *Server) {
	u, err := url.Parse(s.URL)
	if err != nil {
		s.T.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = u.Host
}

// Cuts returns how often it has cut so far.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

func (p *Proxy) accept() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(in) })
	}
}

// hold remembers open connections; it returns false if the test is over.
func (p *Proxy) hold(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		return false
	}
	for _, c := range conns {
		p.open[c] = true
	}
	return true
}

func (p *Proxy) serve(in net.Conn) {
	defer in.Close()
	p.mu.Lock()
	target, limit := p.target, int64(1<<62)
	if p.cuts < p.want {
		limit = rand.N(int64(maxCut))
	}
	p.mu.Unlock()
	out, err := net.Dial("tcp", target)
	if err != nil {
		return // the server is down, so the connection ends
	}
	defer out.Close()
	if !p.hold(in, out) {
		return
	}
	p.wg.Go(func() { io.Copy(out, in); out.Close() })
	n, _ := io.CopyN(in, out, limit)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, in)
	delete(p.open, out)
	if n == limit {
		if p.cuts++; p.cuts == p.want {
			close(p.Done)
		}
	}
}

package servertest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// FaultLine is a TCP proxy that fails on command, as a network does. Its address does
// not change. At first it has no faults.
type FaultLine struct {
	t    testing.TB
	l    net.Listener
	Addr string
	to   string
	wg   sync.WaitGroup

	mu     sync.Mutex
	delay  time.Duration
	split  chan struct{} // not nil: nothing passes until it is closed
	opened int
	open   map[*joint]bool
	over   bool
}

// joint is one connection through a faultLine.
type joint struct {
	in, out net.Conn
	dead    bool // half-open: swallows what either side sends; guarded by the line's mu
}

// StartFaultLine starts a proxy to an address. It ends with the test.
func StartFaultLine(t testing.TB, to string) *FaultLine {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &FaultLine{t: t, l: l, Addr: l.Addr().String(), to: to, open: map[*joint]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.Join()
		p.mu.Lock()
		p.over = true
		for j := range p.open {
			j.in.Close()
			j.out.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

// Delay delays everything by d, in each direction.
func (p *FaultLine) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Split holds back all data, and the ends of connections. What is sent meanwhile
// arrives after Join, as after a network partition.
func (p *FaultLine) Split() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.split == nil {
		p.split = make(chan struct{})
	}
}

// Join ends a Split.
func (p *FaultLine) Join() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.split != nil {
		close(p.split)
		p.split = nil
	}
}

// Reset cuts all open connections with a TCP reset and returns how many.
func (p *FaultLine) Reset() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for j := range p.open {
		for _, c := range []net.Conn{j.in, j.out} {
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	}
	return len(p.open)
}

// Forget makes all open connections half-open for good, like a firewall that lost its
// table: what is sent on them vanishes, and neither end notices. New connections work.
// It returns how many it made half-open.
func (p *FaultLine) Forget() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for j := range p.open {
		j.dead = true
	}
	return len(p.open)
}

// Opened returns how many connections there were so far.
func (p *FaultLine) Opened() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}

func (p *FaultLine) accept() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(in) })
	}
}

func (p *FaultLine) serve(in net.Conn) {
	j := &joint{in: in}
	p.passes(j) // a connection that is opened during a Split is closed after it
	out, err := net.Dial("tcp", p.to)
	if err != nil {
		in.Close()
		return
	}
	j.out = out
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		in.Close()
		out.Close()
		return
	}
	p.open[j] = true
	p.opened++
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pipe(j, in, out) })
	both.Go(func() { p.pipe(j, out, in) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, j)
}

// pipe copies what from sends, and its end, to the other side.
func (p *FaultLine) pipe(j *joint, from, to net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		passes := p.passes(j)
		if n > 0 && passes {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			if passes {
				to.Close()
			}
			from.Close()
			return
		}
	}
}

// passes waits as the faults require, and reports whether to pass on what was read.
func (p *FaultLine) passes(j *joint) bool {
	p.mu.Lock()
	delay, split := p.delay, p.split
	p.mu.Unlock()
	if delay > 0 {
		<-time.After(delay)
	}
	if split != nil {
		<-split
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !j.dead
}

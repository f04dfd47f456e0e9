package sqlitestore

import (
	"context"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/thole-dev/thole/journal"
)

// pool lends connections for reading. It opens them when they are first needed, and
// lends the one that was used last, because its cache is warm.
type pool struct {
	file   file
	cache  int64         // bytes of one connection
	tokens chan struct{} // one for each connection that may be lent

	mu   sync.Mutex
	idle []*conn
	gate chan struct{} // not nil: new readers wait until it is closed
}

func newPool(f file, size int, cache int64) *pool {
	p := &pool{file: f, cache: cache / int64(size), tokens: make(chan struct{}, size)}
	for range size {
		p.tokens <- struct{}{}
	}
	return p
}

// take waits for a connection. Its queries are interrupted when ctx ends.
func (p *pool) take(ctx context.Context, closed <-chan struct{}) (*conn, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	select {
	case <-closed:
		return nil, journal.ErrClosed
	default:
	}
	select {
	case <-p.tokens:
	case <-closed:
		return nil, journal.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c, err := p.lend(ctx)
	if err != nil {
		p.tokens <- struct{}{}
	}
	return c, err
}

// lend returns a connection, after waiting for the gate.
func (p *pool) lend(ctx context.Context) (*conn, error) {
	p.mu.Lock()
	for gate := p.gate; gate != nil; gate = p.gate {
		p.mu.Unlock()
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		p.mu.Lock()
	}
	c := p.pop()
	p.mu.Unlock()
	if c == nil {
		return p.dial(ctx)
	}
	c.SetInterrupt(ctx)
	return c, nil
}

// hold makes new readers wait until release is called; running readers continue. Only
// one goroutine at a time may hold a pool.
func (p *pool) hold() (release func()) {
	gate := make(chan struct{})
	p.mu.Lock()
	p.gate = gate
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		p.gate = nil
		p.mu.Unlock()
		close(gate)
	}
}

// pop removes and returns the idle connection that was used last, or nil. The caller
// holds p.mu.
func (p *pool) pop() *conn {
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	c := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return c
}

func (p *pool) dial(ctx context.Context) (*conn, error) {
	c, err := dial(ctx, p.file.real, p.file.vfs, sqlite3.OPEN_READWRITE, p.cache)
	if err != nil {
		return nil, err
	}
	c.SetInterrupt(ctx)
	if err := c.Exec(`PRAGMA query_only = ON`); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// give returns a connection to the pool. All its statements must have been reset.
func (p *pool) give(c *conn) {
	c.SetInterrupt(context.Background())
	p.mu.Lock()
	p.idle = append(p.idle, c)
	p.mu.Unlock()
	p.tokens <- struct{}{}
}

// pause waits until all readers have finished, and makes new ones wait until resume is
// called.
func (p *pool) pause(ctx context.Context) (resume func(), err error) {
	taken := 0
	resume = func() {
		for range taken {
			p.tokens <- struct{}{}
		}
	}
	for taken < cap(p.tokens) {
		select {
		case <-p.tokens:
			taken++
		case <-ctx.Done():
			resume()
			return nil, context.Cause(ctx)
		}
	}
	return resume, nil
}

// close waits for lent connections and closes all. It lends no more.
func (p *pool) close() error {
	// The tokens are never returned.
	if _, err := p.pause(context.Background()); err != nil {
		return err
	}
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	var first error
	for _, c := range idle {
		if err := c.close(); first == nil {
			first = err
		}
	}
	return first
}

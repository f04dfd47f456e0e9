package sqlitestore

import (
	"context"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/thole-dev/thole"
)

// pool lends connections that read. They are opened when first needed, and the
// one used last is lent first, because its cache is warm.
type pool struct {
	file   file
	cache  int64         // bytes of one connection
	tokens chan struct{} // one for each connection that may be lent

	mu   sync.Mutex
	idle []*conn
}

func newPool(f file, size int, cache int64) *pool {
	p := &pool{file: f, cache: cache / int64(size), tokens: make(chan struct{}, size)}
	for range size {
		p.tokens <- struct{}{}
	}
	return p
}

// take waits for a connection. Its queries end when ctx ends.
func (p *pool) take(ctx context.Context, closed <-chan struct{}) (*conn, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	select {
	case <-closed:
		return nil, thole.ErrClosed
	default:
	}
	select {
	case <-p.tokens:
	case <-closed:
		return nil, thole.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c := p.pop(); c != nil {
		c.SetInterrupt(ctx)
		return c, nil
	}
	c, err := p.dial(ctx)
	if err != nil {
		p.tokens <- struct{}{}
		return nil, err
	}
	return c, nil
}

func (p *pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	c := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return c
}

func (p *pool) dial(ctx context.Context) (*conn, error) {
	c, err := dial(ctx, p.file.path, p.file.vfs, sqlite3.OPEN_READWRITE)
	if err != nil {
		return nil, err
	}
	c.SetInterrupt(ctx)
	err = c.tune(p.cache)
	if err == nil {
		err = c.Exec(`PRAGMA query_only = ON`)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// give takes a connection back. All its statements must have been reset.
func (p *pool) give(c *conn) {
	c.SetInterrupt(context.Background())
	p.mu.Lock()
	p.idle = append(p.idle, c)
	p.mu.Unlock()
	p.tokens <- struct{}{}
}

// pause waits until nobody reads and keeps it so until resume is called.
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

// close waits for what is lent and closes all.
func (p *pool) close() error {
	// The tokens are kept: nothing is lent any more.
	if _, err := p.pause(context.Background()); err != nil {
		return err
	}
	var first error
	for c := p.pop(); c != nil; c = p.pop() {
		if err := c.close(); first == nil {
			first = err
		}
	}
	return first
}

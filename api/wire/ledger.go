package wire

import (
	"fmt"
	"sync"
	"time"

	"github.com/thole-dev/thole"
)

// ledger remembers what became of changes, so that a client that lost the answer
// can ask for it again. It forgets what the client says is finished, and clients
// that were silent for longer than any client tries again.
type ledger struct {
	now func() time.Time

	mu      sync.Mutex
	clients map[string]*client
	swept   time.Time
}

const (
	keepClient = 3 * time.Minute // of silence; a client tries for one at most
	maxClients = 10_000
)

type client struct {
	finished uint64 // no number below it will be asked for again
	outcomes map[uint64]*outcome
	used     time.Time
}

// outcome is what became of one change, once known is closed.
type outcome struct {
	known chan struct{}
	body  []byte
	err   error
}

func (o *outcome) set(body []byte, err error) {
	o.body, o.err = body, err
	close(o.known)
}

// number names a change: see [remote.HeaderChange].
type number struct {
	client      string
	n, finished uint64
}

func parseNumber(s string) (number, error) {
	var n number
	if _, err := fmt.Sscanf(s, "%32s %d %d", &n.client, &n.n, &n.finished); err != nil || n.n == 0 || n.finished > n.n {
		return number{}, fmt.Errorf("%w: %.80q does not number a change", thole.ErrInvalid, s)
	}
	return n, nil
}

func newLedger(now func() time.Time) *ledger {
	return &ledger{now: now, clients: make(map[string]*client), swept: now()}
}

// enter returns the outcome of a change; the first to ask has to set it. Errors:
// ErrClosed for one that is new while draining, ErrUnavailable when there are
// too many clients, ErrConflict for a late copy of a request whose client has
// got its answer.
func (l *ledger) enter(n number, draining bool) (_ *outcome, first bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.sweep(now)
	c := l.clients[n.client]
	if c != nil {
		c.used = now
		c.finish(n.finished)
		if o := c.outcomes[n.n]; o != nil {
			return o, false, nil
		}
		if n.n < c.finished {
			return nil, false, fmt.Errorf("%w: change %d of this client is finished", thole.ErrConflict, n.n)
		}
	}
	switch {
	case draining:
		return nil, false, fmt.Errorf("%w: the server is going away", thole.ErrClosed)
	case c == nil && len(l.clients) >= maxClients:
		return nil, false, fmt.Errorf("%w: more than %d programs use this server as their store", thole.ErrUnavailable, maxClients)
	case c == nil:
		c = &client{finished: n.finished, outcomes: make(map[uint64]*outcome), used: now}
		l.clients[n.client] = c
	}
	o := &outcome{known: make(chan struct{})}
	c.outcomes[n.n] = o
	return o, true, nil
}

func (c *client) finish(below uint64) {
	if below <= c.finished {
		return
	}
	c.finished = below
	for n := range c.outcomes {
		if n < below {
			delete(c.outcomes, n)
		}
	}
}

// sweep forgets silent clients, now and then.
func (l *ledger) sweep(now time.Time) {
	if now.Sub(l.swept) < keepClient/3 {
		return
	}
	l.swept = now
	for name, c := range l.clients {
		if now.Sub(c.used) > keepClient {
			delete(l.clients, name)
		}
	}
}

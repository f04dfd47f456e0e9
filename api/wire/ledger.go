package wire

import (
	"crypto/sha256"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/thole-dev/thole/journal"
)

// ledger remembers what became of changes, so that a client that lost the answer
// can ask for it again. It forgets what the client says is finished, and clients
// that were silent for longer than any client tries again.
type ledger struct {
	now func() time.Time

	mu      sync.Mutex
	clients map[name]*client
	callers map[string]int // how many clients each has
	swept   time.Time
}

// name is what tells clients apart. What one caller's client changed is nobody
// else's to ask for.
type name struct{ caller, client string }

const (
	keepClient    = 3 * time.Minute // of silence; a client tries for one at most
	maxClients    = 10_000          // of one caller
	maxUnfinished = 10_000          // outcomes of one client
)

type client struct {
	finished uint64 // no number below it will be asked for again
	outcomes map[uint64]*outcome
	used     time.Time
}

// outcome is what became of one change, once known is closed.
type outcome struct {
	request digest
	known   chan struct{}
	body    []byte
	err     error
}

func (o *outcome) set(body []byte, err error) {
	o.body, o.err = body, err
	close(o.known)
}

// digest tells requests apart.
type digest [sha256.Size]byte

func digestOf(path string, body []byte) (d digest) {
	h := sha256.New()
	io.WriteString(h, path+"\n")
	h.Write(body)
	h.Sum(d[:0])
	return d
}

// number names a change: see [remote.HeaderChange].
type number struct {
	client      string
	n, finished uint64
}

func parseNumber(s string) (number, error) {
	var n number
	if _, err := fmt.Sscanf(s, "%32s %d %d", &n.client, &n.n, &n.finished); err != nil || n.n == 0 || n.finished > n.n {
		return number{}, fmt.Errorf("%w: %.80q does not number a change", journal.ErrInvalid, s)
	}
	return n, nil
}

func newLedger(now func() time.Time) *ledger {
	return &ledger{now: now, clients: make(map[name]*client), callers: make(map[string]int), swept: now()}
}

// enter returns the outcome of a caller's change; the first to ask has to set it.
// Errors: ErrClosed for one that is new while draining, ErrUnavailable when the
// caller has too many clients or the client too many changes, ErrConflict for a
// late copy of a request whose client has got its answer, ErrInvalid for another
// request under the number of an earlier one.
func (l *ledger) enter(caller string, n number, request digest, draining bool) (_ *outcome, first bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.sweep(now)
	who := name{caller, n.client}
	c := l.clients[who]
	if c != nil {
		c.used = now
		c.finish(n.finished)
		switch o := c.outcomes[n.n]; {
		case o != nil && o.request != request:
			return nil, false, fmt.Errorf("%w: change %d of this client is another request", journal.ErrInvalid, n.n)
		case o != nil:
			return o, false, nil
		case n.n < c.finished:
			return nil, false, fmt.Errorf("%w: change %d of this client is finished", journal.ErrConflict, n.n)
		}
	}
	switch {
	case draining:
		return nil, false, fmt.Errorf("%w: the server is going away", journal.ErrClosed)
	case c == nil && l.callers[caller] >= maxClients:
		return nil, false, fmt.Errorf("%w: more than %d programs use this server as their store in the name of one caller", journal.ErrUnavailable, maxClients)
	case c == nil:
		c = &client{finished: n.finished, outcomes: make(map[uint64]*outcome), used: now}
		l.clients[who] = c
		l.callers[caller]++
	case len(c.outcomes) >= maxUnfinished:
		return nil, false, fmt.Errorf("%w: this client has more than %d changes that it does not call finished", journal.ErrUnavailable, maxUnfinished)
	}
	o := &outcome{request: request, known: make(chan struct{})}
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
	for who, c := range l.clients {
		if now.Sub(c.used) <= keepClient {
			continue
		}
		delete(l.clients, who)
		if l.callers[who.caller]--; l.callers[who.caller] == 0 {
			delete(l.callers, who.caller)
		}
	}
}

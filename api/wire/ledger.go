package wire

import (
	"crypto/sha256"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/thole-dev/thole/journal"
)

// ledger remembers the outcomes of changes, so that a client that lost an answer
// can ask for it again. It forgets the outcomes that the client says it has, and
// clients that were silent for longer than any client retries.
type ledger struct {
	now func() time.Time

	mu      sync.Mutex
	clients map[name]*client
	callers map[string]int // how many clients each has
	swept   time.Time
}

// name identifies a client. It includes the caller, so that no caller can ask for the
// outcome of another's change.
type name struct{ caller, client string }

const (
	keepClient    = 3 * time.Minute // after its last request; a client retries for a minute at most
	maxClients    = 10_000          // per caller
	maxUnfinished = 10_000          // outcomes per client
)

type client struct {
	finished uint64 // the client has the outcomes of all numbers below
	outcomes map[uint64]*outcome
	used     time.Time
}

// outcome is the result of one change. It is valid once known is closed.
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

// digest is the SHA-256 of a request: its path and its body.
type digest [sha256.Size]byte

func digestOf(path string, body []byte) (d digest) {
	h := sha256.New()
	io.WriteString(h, path+"\n")
	h.Write(body)
	h.Sum(d[:0])
	return d
}

// number identifies a client's change: see [remote.HeaderChange].
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

// enter returns the outcome of a caller's change, and whether this is the first
// request for it: then the caller of enter has to set it. Errors: ErrClosed for a new
// change while draining, ErrUnavailable when the caller has too many clients or the
// client too many unfinished changes, ErrConflict for a late copy of a request whose
// answer the client already has, ErrInvalid for a number that an earlier, different
// request had.
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

// sweep forgets silent clients. It does so once in keepClient/3 at most.
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

package rest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/journal/problem"
)

// A long request, such as an event stream or a wait for a lock, ends when its token
// is revoked or expires. The event token.revoked reports revocations, those by other
// processes too; a timer reports expiry. Should both fail, event streams notice when
// they authenticate the caller again, with a heartbeat.

// holders registers the long requests by the ids of their tokens. One subscription
// serves all of them; it begins with the first one and ends when the API drains.
type holders struct {
	mu       sync.Mutex
	watching bool
	look     map[string]map[int]func() // token → request → what to call when the token may have been revoked
	last     int
}

// add registers look, which is called whenever the token may have been revoked, until
// remove is called.
func (h *holders) add(token string, look func()) (remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.look == nil {
		h.look = make(map[string]map[int]func())
	}
	if h.look[token] == nil {
		h.look[token] = make(map[int]func())
	}
	h.last++
	n := h.last
	h.look[token][n] = look
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if delete(h.look[token], n); len(h.look[token]) == 0 {
			delete(h.look, token)
		}
	}
}

// of returns the functions to call for a token.
func (h *holders) of(token string) (all []func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, look := range h.look[token] {
		all = append(all, look)
	}
	return all
}

// watchTokens subscribes to revocations, unless it has already done so.
func (a *API) watchTokens() {
	h := &a.holders
	h.mu.Lock()
	begin := !h.watching
	h.watching = true
	h.mu.Unlock()
	if !begin {
		return
	}
	_, err := a.store.Space("global").Subscribe(a.drain, &thole.WatchOptions{Types: []string{auth.TypeRevoked}, Durable: true}, func(d *thole.Delivery) {
		var gone struct{ ID string }
		if d.As(&gone) != nil {
			return
		}
		for _, look := range h.of(gone.ID) {
			look()
		}
	})
	if err != nil && a.drain.Err() == nil {
		a.log.Warn("revoked tokens are noticed with the next heartbeat only", "error", err)
		h.mu.Lock()
		h.watching = false // the next long request tries again
		h.mu.Unlock()
	}
}

// whileKnown returns a context that also ends, with the cause
// problem.ErrUnauthorized, once the caller's token is revoked or has expired. The
// caller calls stop.
func (c *call) whileKnown(ctx context.Context) (_ context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if c.token == nil {
		return ctx, func() { cancel(nil) }
	}
	look := func() {
		if _, err := c.authenticate(ctx); errors.Is(err, problem.ErrUnauthorized) {
			cancel(err)
		}
	}
	remove := c.api.holders.add(c.token.ID, look)
	c.api.watchTokens()
	look() // the token may have been revoked before
	var timer *time.Timer
	if expires := c.token.Expires; !expires.IsZero() {
		timer = time.AfterFunc(expires.Sub(c.api.store.Now())+time.Millisecond, look)
	}
	return ctx, func() {
		remove()
		if timer != nil {
			timer.Stop()
		}
		cancel(nil)
	}
}

package rest

import (
	"fmt"
	"sync"
	"time"

	"github.com/thole-dev/thole/journal/problem"
	"golang.org/x/time/rate"
)

// maxCallers bounds how many callers a limiter remembers.
const maxCallers = 10_000

// limiter bounds how many requests per second each caller makes.
type limiter struct {
	rate int

	mu sync.Mutex
	m  map[string]*rate.Limiter
}

// newLimiter returns a limiter; 0 per second means no bound.
func newLimiter(perSecond int) *limiter {
	return &limiter{rate: perSecond, m: make(map[string]*rate.Limiter)}
}

// allow counts a request of caller. It returns problem.ErrRateLimited if the caller
// has used up its allowance.
func (l *limiter) allow(caller string) error {
	if l.rate <= 0 {
		return nil
	}
	l.mu.Lock()
	lim := l.m[caller]
	if lim == nil {
		if len(l.m) >= maxCallers {
			l.forgetIdle()
		}
		lim = rate.NewLimiter(rate.Limit(l.rate), l.rate)
		l.m[caller] = lim
	}
	l.mu.Unlock()
	if !lim.Allow() {
		return fmt.Errorf("%w: more than %d requests a second", problem.ErrRateLimited, l.rate)
	}
	return nil
}

// forgetIdle drops callers with a full allowance, since a new caller starts with one.
func (l *limiter) forgetIdle() {
	now := time.Now()
	for caller, lim := range l.m {
		if lim.TokensAt(now) >= float64(l.rate) {
			delete(l.m, caller)
		}
	}
}

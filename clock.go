package thole

import (
	"context"
	"sync"
	"time"
)

// clock is the one source of time of a Store. It never goes back: not when the
// system clock is set, and not behind a time it has seen in the store, so that
// a lease written before a restart ends when it should even if the machine's
// clock was turned back between.
type clock struct {
	wall func() time.Time

	mu   sync.Mutex // held over wall, so that only a real step back is taken for one
	last int64      // microseconds; the latest time given out or seen
	skew int64      // microseconds that wall is behind it
}

func newClock(wall func() time.Time) *clock {
	if wall == nil {
		// The monotonic clock does not see the system clock being set back, but
		// stands still while the machine sleeps; the system clock does not.
		start := time.Now()
		wall = func() time.Time {
			now := time.Now()
			steady, system := start.Add(now.Sub(start)).Round(0), now.Round(0)
			if system.After(steady) {
				return system
			}
			return steady
		}
	}
	return &clock{wall: wall}
}

// now goes on from the latest time even when wall was set back: a clock that
// stood still until then would keep every lease alive.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.wall().UnixMicro() + c.skew
	if t < c.last {
		c.skew += c.last - t
		t = c.last
	}
	c.last = t
	return time.UnixMicro(t).UTC()
}

// observe makes sure that now is not before t from here on, and that time goes
// on from t.
func (c *clock) observe(t time.Time) {
	if t.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := t.UnixMicro(); at > c.last {
		c.last = at
		c.skew = max(c.skew, at-c.wall().UnixMicro())
	}
}

// forever is a time by which every expiring record is due.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// catchUpClock looks at what may be waiting for a time to pass: spaces that
// hold an expiring record. It reads a bounded number of them; the others are
// seen when they are read.
func (s *Store) catchUpClock(ctx context.Context) error {
	spaces, err := s.backend.Spaces(ctx, SpacesQuery{DueBy: forever, Limit: 100})
	if err != nil {
		return err
	}
	for _, name := range spaces {
		page, err := s.backend.Read(ctx, name, ReadQuery{Backward: true, Limit: 1})
		if err != nil {
			return err
		}
		for _, e := range page.Events {
			s.clock.observe(e.Time)
		}
	}
	return nil
}

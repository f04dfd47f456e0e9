package thole

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// clock is the one source of time of a Store. It never goes back. When the system
// clock is set back, it goes on from where it was. It follows no other clock: see
// decision 0004.
type clock struct {
	wall   func() time.Time
	steady func() time.Duration // that passed; setting the system's clock does not move it

	mu   sync.Mutex // held over wall, so that only a real step back is taken for one
	last int64      // microseconds; the latest time given out
	skew int64      // microseconds that wall was set back by
}

// maxSkew is by how much a time in the store may be ahead of the machine's clock
// before it is taken for that of a clock which is wrong. Machines should agree
// within a second.
const maxSkew = 5 * time.Second

func newClock(wall func() time.Time) *clock {
	c := &clock{wall: wall}
	if wall != nil {
		start := c.now()
		c.steady = func() time.Duration { return c.now().Sub(start) }
		return c
	}
	// The monotonic clock does not see the system clock being set back, but
	// stands still while the machine sleeps; the system clock does not.
	start := time.Now()
	c.steady = func() time.Duration { return time.Since(start) }
	c.wall = func() time.Time {
		now := time.Now()
		steady, system := start.Add(now.Sub(start)).Round(0), now.Round(0)
		if system.After(steady) {
			return system
		}
		return steady
	}
	return c
}

// now goes on from the latest time even when wall was set back: a clock that
// stood still until then would keep every lease alive.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.own()
	if t < c.last {
		c.skew += c.last - t
		t = c.last
	}
	c.last = t
	return time.UnixMicro(t).UTC()
}

// own is the machine's time, as if it had never been set back.
func (c *clock) own() int64 { return c.wall().UnixMicro() + c.skew }

// ahead returns by how much t is ahead of the machine's clock, if that is more than
// maxSkew, else 0.
func (c *clock) ahead(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.UnixMicro() <= c.last {
		return 0
	}
	by := t.Sub(time.UnixMicro(c.own())) // at most 292 years
	if by <= maxSkew {
		return 0
	}
	return min(by, maxAhead)
}

// maxAhead bounds what is added to a time. A machine without a battery for its
// clock starts in 1970.
const maxAhead = 100 * 365 * 24 * time.Hour

// ahead is what a Store has seen of times ahead of its machine's clock.
type ahead struct {
	mu   sync.Mutex
	by   map[string]time.Duration // the most, by space
	most time.Duration
}

// maxAheadSpaces bounds of how many spaces a Store remembers that.
const maxAheadSpaces = 10_000

// observed takes in a time that something in a space carries, and tells the
// operator once that two clocks differ.
func (s *Store) observed(t time.Time, space, what string) {
	by := s.clock.ahead(t)
	if by == 0 {
		return
	}
	a := &s.ahead
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.by[space]; known || len(a.by) < maxAheadSpaces {
		a.by[space] = max(a.by[space], by)
	}
	first := a.most == 0
	a.most = max(a.most, by)
	if !first {
		return
	}
	level := slog.LevelWarn
	if by > time.Minute {
		level = slog.LevelError
	}
	s.log.Log(context.Background(), level,
		"a time in the store is ahead of this machine's clock: either that clock was ahead, or this one is behind, and "+
			"what this process writes with a ttl ends too early for others. Set the wrong clock and start its processes again. See thole doctor",
		"space", space, "what", what, "ahead", by.Round(time.Millisecond))
}

// aheadIn returns by how much the newest time seen in a space was ahead of the
// machine's clock.
func (s *Store) aheadIn(space string) time.Duration {
	s.ahead.mu.Lock()
	defer s.ahead.mu.Unlock()
	return s.ahead.by[space]
}

// ClockLead returns by how much the newest time that this Store has seen in its
// data was ahead of the machine's clock, if that was more than 5 s, else 0. A
// machine that writes to the store had a wrong clock then, or this one has.
func (s *Store) ClockLead() time.Duration {
	s.ahead.mu.Lock()
	defer s.ahead.mu.Unlock()
	return s.ahead.most
}

// catchUpClock compares the machine's clock with the newest times of spaces that
// hold an expiring record. It reads a bounded number of them; the others are seen
// when they are read, and so is why one cannot be.
func (s *Store) catchUpClock(ctx context.Context) error {
	spaces, err := s.backend.Spaces(ctx, SpacesQuery{DueBy: forever, Limit: 100})
	if reached(err) != nil {
		return err
	}
	for _, name := range spaces {
		page, err := s.backend.Read(ctx, name, ReadQuery{Backward: true, Limit: 1})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			s.log.Warn("a space could not be looked at", "space", name, "error", err)
		}
		for _, e := range page.Events {
			s.observed(e.Time, name, "event "+e.Position.String())
		}
	}
	return nil
}

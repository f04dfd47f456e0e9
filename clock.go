package thole

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// clock is a Store's only source of time. It never goes back: when the system clock is
// set back, it continues from its latest time. It follows no clock of another machine:
// see decision 0004.
type clock struct {
	wall   func() time.Time
	steady func() time.Duration // time passed since the start, which setting the system clock does not change

	mu   sync.Mutex // held while calling wall, so that concurrent calls do not look like a step back
	last int64      // microseconds; the latest time returned
	skew int64      // microseconds by which wall was set back
}

// maxSkew is how far a time in the store may be ahead of the machine's clock before one
// of the clocks counts as wrong. Machines should agree within a second.
const maxSkew = 5 * time.Second

func newClock(wall func() time.Time) *clock {
	c := &clock{wall: wall}
	if wall != nil {
		start := c.now()
		c.steady = func() time.Duration { return c.now().Sub(start) }
		return c
	}
	// Use the later of the two clocks: the monotonic clock is never set back, but
	// stands still while the machine sleeps; the system clock continues then.
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

// now returns the time. When wall was set back, it continues from the latest time at
// the normal rate: if it stood still until wall catches up, no lease would expire.
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

// own returns the machine's time as if it had never been set back.
func (c *clock) own() int64 { return c.wall().UnixMicro() + c.skew }

// ahead returns how far t is ahead of the machine's clock if that is more than maxSkew,
// else 0.
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

// maxAhead bounds the result of ahead. A machine whose clock has no battery starts in
// 1970.
const maxAhead = 100 * 365 * 24 * time.Hour

// ahead records how far times in the store were ahead of the machine's clock.
type ahead struct {
	mu   sync.Mutex
	by   map[string]time.Duration // the maximum, by space
	most time.Duration
}

// maxAheadSpaces bounds the number of spaces in ahead.
const maxAheadSpaces = 10_000

// observed compares a time read from a space with the machine's clock. The first time
// that two clocks differ, it logs a warning.
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

// aheadIn returns how far the newest time seen in a space was ahead of the machine's
// clock.
func (s *Store) aheadIn(space string) time.Duration {
	s.ahead.mu.Lock()
	defer s.ahead.mu.Unlock()
	return s.ahead.by[space]
}

// ClockLead returns how far the newest time that this Store has seen in its data was
// ahead of the machine's clock if that was more than 5 s, else 0. If it is not 0, the
// clock of this machine, or of another that has written to the store, is wrong.
func (s *Store) ClockLead() time.Duration {
	s.ahead.mu.Lock()
	defer s.ahead.mu.Unlock()
	return s.ahead.most
}

// catchUpClock compares the machine's clock with the newest times of up to 100 spaces
// that have an expiring record. Other spaces are compared when they are read. If a
// space cannot be read, it logs a warning.
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

package thole

import (
	"context"
	"sync/atomic"
	"time"
)

// clock is the one source of time of a Store. It never goes back: not when the
// system clock is set, and not behind a time it has seen in the store, so that
// a lease written before a restart ends when it should even if the machine's
// clock was turned back between.
type clock struct {
	wall func() time.Time
	last *atomic.Int64 // microseconds; the latest time given out or seen
	skew *atomic.Int64 // microseconds that wall is behind what was seen
}

func newClock(wall func() time.Time) clock {
	if wall == nil {
		start := time.Now()
		wall = func() time.Time { return start.Add(time.Since(start)) }
	}
	return clock{wall: wall, last: new(atomic.Int64), skew: new(atomic.Int64)}
}

func (c clock) now() time.Time {
	return time.UnixMicro(c.raise(c.wall().UnixMicro() + c.skew.Load())).UTC()
}

// observe makes sure that now is not before t from here on, and that time goes
// on from t.
func (c clock) observe(t time.Time) {
	if t.IsZero() || t.UnixMicro() <= c.last.Load() {
		return
	}
	if behind := t.UnixMicro() - c.wall().UnixMicro(); behind > c.skew.Load() {
		c.skew.Store(behind)
	}
	c.raise(t.UnixMicro())
}

func (c clock) raise(t int64) int64 {
	for {
		last := c.last.Load()
		if t <= last {
			return last
		}
		if c.last.CompareAndSwap(last, t) {
			return t
		}
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

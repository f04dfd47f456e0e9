package sqlitestore_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/thole-dev/thole/backend/backendtest/model"
	"github.com/thole-dev/thole/journal"
)

func pick[T any](s *schedule, of ...T) T { return of[s.rand.IntN(len(of))] }

func (s *schedule) space() string { return pick(s, "user:1", "user:2", "project:shop", "global") }

func (s *schedule) stream() string { return pick(s, "a", "a/b", "thread/1", "thread/2") }

// value returns a value that no other call returns. Some are longer than a page, and
// some fill the log, so that it is checkpointed.
func (s *schedule) value() json.RawMessage {
	s.values++
	size := 1 + s.rand.IntN(5)
	switch n := s.rand.IntN(100); {
	case n < 3:
		size = 10_000 + s.rand.IntN(20_000)
	case n < 20:
		size = 100 + s.rand.IntN(1000)
	}
	return json.RawMessage(`"` + strings.Repeat(fmt.Sprintf("%d.", s.values), size) + `"`)
}

// batch returns commits, most of which succeed.
func (s *schedule) batch() []journal.Commit {
	batch := make([]journal.Commit, pick(s, 1, 1, 1, 2, 3, 8))
	for i := range batch {
		c := &batch[i]
		c.Space, c.Now = s.space(), s.now
		c.Actor, c.Cause = pick(s, "", "user:1", "agent:a"), pick(s, "", "run_1")
		for range s.rand.IntN(4) {
			c.Events = append(c.Events, journal.Event{Stream: s.stream(), Type: pick(s, "note.added", "note.kept"),
				Subject: pick(s, "", "user:7"), Refs: pick(s, nil, []string{"r"}), Schema: s.rand.IntN(3), Data: s.value()})
		}
		for n := range s.rand.IntN(4) {
			w := journal.Write{Key: fmt.Sprintf("k/%d%d", n, s.rand.IntN(4)), Schema: s.rand.IntN(3)}
			if s.rand.IntN(4) > 0 {
				w.Value = s.value()
			}
			if w.Value != nil && s.rand.IntN(4) == 0 {
				w.Expires, w.Notify = s.now.Add(time.Hour), s.rand.IntN(2) == 0
			}
			c.Writes = append(c.Writes, w)
		}
		if len(c.Events)+len(c.Writes) == 0 {
			c.Writes = []journal.Write{{Key: fmt.Sprint("only/", s.rand.IntN(4)), Value: s.value()}}
		}
		c.Checks = s.checks(c)
	}
	return batch
}

// checks returns checks that hold before the batch, and so may fail after an earlier
// commit of it, and now and then one that does not hold.
func (s *schedule) checks(c *journal.Commit) (checks []journal.Check) {
	r := s.base[c.Space]
	if r == nil {
		return nil
	}
	for range s.rand.IntN(3) {
		k := journal.Check{Stream: s.stream()}
		k.At = r.Version(k.Stream)
		if len(c.Writes) > 0 && s.rand.IntN(2) == 0 {
			k = journal.Check{Key: c.Writes[0].Key}
			k.At = r.Records[k.Key].Version
		}
		if s.rand.IntN(10) == 0 {
			k.At = model.At(1 + s.rand.Uint64N(r.Last))
		}
		checks = append(checks, k)
	}
	return checks
}

// purge returns a purge of an existing space.
func (s *schedule) purge(r *model.Space) (p journal.Purge) {
	switch n := s.rand.IntN(10); {
	case n < 6:
		p.Before = model.At(r.Oldest + s.rand.Uint64N(r.Last+2-r.Oldest))
	case n < 7:
		p.Streams = []string{s.stream(), "thread/2"}
		if s.rand.IntN(2) == 0 {
			p.UpTo = model.At(1 + s.rand.Uint64N(r.Last))
		}
	case n < 9 && len(r.Events) > 0:
		p.Events = []journal.Position{pick(s, r.Events...).Position, pick(s, r.Events...).Position}
	default:
		p.All = true
	}
	return p
}

// query returns a query of an existing space.
func (s *schedule) query() journal.ReadQuery {
	q := journal.ReadQuery{Backward: s.rand.IntN(2) == 0, Limit: pick(s, 0, 1, 10)}
	if s.rand.IntN(2) == 0 {
		q.Stream = s.stream()
	}
	return q
}

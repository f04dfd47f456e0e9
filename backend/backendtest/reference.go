package backendtest

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/journal"
)

// reference is the expected content of a store in the simplest form. It shares no code
// with any backend or with the rules in package journal.
type reference map[string]*referenceSpace

// referenceSpace is one space. It has a single epoch, which the backend chose.
type referenceSpace struct {
	epoch        string
	oldest, last uint64
	events       []journal.Event // what is kept
	records      map[string]journal.Record
}

func (s *referenceSpace) at(seq uint64) journal.Position {
	return journal.Position{Epoch: s.epoch, Seq: seq}
}

// version returns the position of a stream's last event.
func (s *referenceSpace) version(stream string) (at journal.Position) {
	for _, ev := range s.events {
		if ev.Stream == stream {
			at = ev.Position
		}
	}
	return at
}

// conflict returns the conflict that c must fail with, or nil.
func (m reference) conflict(c journal.Commit) *journal.ConflictError {
	s := m[c.Space]
	if s == nil {
		s = &referenceSpace{}
	}
	for _, k := range c.Checks {
		want := &journal.ConflictError{Space: c.Space, Check: k}
		if k.Stream != "" {
			want.Actual = s.version(k.Stream)
		} else if r, ok := s.records[k.Key]; ok {
			expired := isDue(r, c.Now)
			want.Expired = expired && r.Notify
			if !expired || r.Notify {
				want.Actual = r.Version
			}
		}
		if want.Expired || want.Actual != k.At {
			return want
		}
	}
	for _, w := range c.Writes {
		if r, ok := s.records[w.Key]; ok && r.Notify && isDue(r, c.Now) {
			return &journal.ConflictError{Space: c.Space, Check: journal.Check{Key: w.Key}, Actual: r.Version, Expired: true}
		}
	}
	return nil
}

func isDue(r journal.Record, by time.Time) bool {
	return !r.Expires.IsZero() && r.Expires.UnixMicro() <= by.UnixMicro()
}

// apply applies c and returns the result that it must have. For a new space it takes
// the epoch from got.
func (m reference) apply(c journal.Commit, got journal.Result) journal.Result {
	s := m[c.Space]
	if s == nil {
		s = &referenceSpace{epoch: got.Last.Epoch, oldest: 1, records: map[string]journal.Record{}}
		m[c.Space] = s
	}
	r := journal.Result{Last: s.at(s.last + 1)}
	if n := uint64(len(c.Events)); n > 0 {
		r = journal.Result{First: s.at(s.last + 1), Last: s.at(s.last + n)}
	}
	s.last = r.Last.Seq
	s.events = append(s.events, canonical(eventsOf(c, r)).([]journal.Event)...)
	for _, w := range c.Writes {
		delete(s.records, w.Key)
	}
	for _, rec := range canonical(recordsOf(c, r)).([]journal.Record) {
		s.records[rec.Key] = rec
	}
	return r
}

func (m reference) head(name string) journal.Head {
	s := m[name]
	if s == nil {
		return journal.Head{Space: name}
	}
	return journal.Head{
		Space: name, Oldest: s.at(s.oldest), Last: s.at(s.last),
		Epochs: []journal.Epoch{{Name: s.epoch, First: 1, Last: s.last}},
	}
}

// resumes reports whether a read must accept a cursor.
func (m reference) resumes(name string, p journal.Position) bool {
	if p.IsZero() {
		return true
	}
	s := m[name]
	return s != nil && p.Epoch == s.epoch && p.Seq <= s.last && p.Seq+1 >= s.oldest
}

func (m reference) read(name string, q journal.ReadQuery) []journal.Event {
	if s := m[name]; s != nil {
		return selected(s.events, q)
	}
	return []journal.Event{}
}

// selected returns the events that a query selects from those of one epoch.
func selected(events []journal.Event, q journal.ReadQuery) []journal.Event {
	out := []journal.Event{}
	for _, ev := range events {
		switch {
		case !q.After.IsZero() && ev.Position.Seq <= q.After.Seq:
		case !q.Before.IsZero() && ev.Position.Seq >= q.Before.Seq:
		case q.Stream != "" && ev.Stream != q.Stream:
		case q.Actor != "" && ev.Actor != q.Actor:
		case q.Subject != "" && ev.Subject != q.Subject:
		case !q.Since.IsZero() && ev.Time.UnixMicro() < q.Since.UnixMicro():
		case !q.Until.IsZero() && ev.Time.UnixMicro() >= q.Until.UnixMicro():
		case len(q.Types) > 0 && !slices.ContainsFunc(q.Types, func(t string) bool { return typeIs(ev.Type, t) }):
		default:
			out = append(out, ev)
		}
	}
	if q.Backward {
		slices.Reverse(out)
	}
	return out
}

func typeIs(typ, pattern string) bool {
	if strings.HasSuffix(pattern, ".*") {
		noun := pattern[:len(pattern)-1]
		return len(typ) >= len(noun) && typ[:len(noun)] == noun
	}
	return typ == pattern
}

func (m reference) list(name string, q journal.ListQuery) []journal.Record {
	out := []journal.Record{}
	s := m[name]
	if s == nil {
		return out
	}
	for _, key := range slices.Sorted(maps.Keys(s.records)) {
		r := s.records[key]
		if strings.HasPrefix(key, q.Prefix) && key > q.After && (q.DueBy.IsZero() || isDue(r, q.DueBy)) {
			out = append(out, r)
		}
	}
	return out
}

func (m reference) purge(name string, p journal.Purge) {
	s := m[name]
	switch {
	case p.All:
		delete(m, name)
	case !p.Before.IsZero():
		s.oldest = max(s.oldest, p.Before.Seq)
		s.events = slices.DeleteFunc(s.events, func(ev journal.Event) bool { return ev.Position.Seq < s.oldest })
	case p.Streams != nil:
		s.events = slices.DeleteFunc(s.events, func(ev journal.Event) bool {
			in := p.UpTo.IsZero() || p.UpTo.Seq <= s.last && ev.Position.Compare(p.UpTo) <= 0
			return in && slices.Contains(p.Streams, ev.Stream)
		})
	default:
		for i, ev := range s.events {
			if slices.Contains(p.Events, ev.Position) {
				s.events[i] = journal.Event{Position: ev.Position, Stream: ev.Stream, Type: ev.Type, Time: ev.Time, Schema: ev.Schema}
			}
		}
	}
}

func (m reference) copy(from, to string) {
	s := *m[from]
	s.events, s.records = slices.Clone(s.events), maps.Clone(s.records)
	m[to] = &s
}

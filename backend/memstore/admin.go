package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/thole-dev/thole/journal"
)

// load is an unfinished import. Its content is keyed, so that sending a chunk again
// changes nothing.
type load struct {
	head    journal.Head
	events  map[uint64]journal.Event
	records map[string]journal.Record
}

// Load implements [journal.Backend]. An existing space is ErrExists.
func (s *Store) Load(ctx context.Context, name string, c journal.Chunk) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	defer unlock()
	if _, ok := s.spaces.Get(name); ok {
		return fmt.Errorf("load %s: %w", name, journal.ErrExists)
	}
	if err := c.Validate(); err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	l := s.loading[name]
	if l == nil || !sameHead(l.head, c.Head) {
		l = &load{head: cloneHead(c.Head), events: map[uint64]journal.Event{}, records: map[string]journal.Record{}}
		s.loading[name] = l
	}
	for _, e := range c.Events {
		l.events[e.Position.Seq] = cloneEvent(e)
	}
	for _, r := range c.Records {
		l.records[r.Key] = cloneRecord(r)
	}
	if c.Done {
		delete(s.loading, name)
		s.spaces.Set(name, l.space(name))
	}
	return nil
}

func (l *load) space(name string) *space {
	sp := newSpace(l.head)
	sp.head.Space = name
	for _, seq := range slices.Sorted(maps.Keys(l.events)) {
		sp.append(l.events[seq])
	}
	for _, r := range l.records {
		sp.put(r)
	}
	return sp
}

func sameHead(a, b journal.Head) bool {
	return a.Oldest == b.Oldest && a.Last == b.Last && slices.Equal(a.Epochs, b.Epochs)
}

// Purge implements [journal.Backend]. Before follows [journal.Head.Trim].
func (s *Store) Purge(ctx context.Context, name string, p journal.Purge) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("purge %s: %w", name, err)
	}
	defer unlock()
	sp, ok := s.spaces.Get(name)
	if !ok {
		return fmt.Errorf("purge %s: %w", name, journal.ErrNotFound)
	}
	switch {
	case p.All:
		s.spaces.Delete(name)
		delete(s.loading, name)
	case !p.Before.IsZero():
		if err := sp.head.Trim(p.Before); err != nil {
			return fmt.Errorf("purge: %w", err)
		}
		oldest := sp.head.Oldest.Seq
		sp.remove(func(e *journal.Event) bool { return e.Position.Seq < oldest })
	case len(p.Streams) > 0:
		through := p.Through(sp.head)
		sp.remove(func(e *journal.Event) bool { return e.Position.Seq <= through && slices.Contains(p.Streams, e.Stream) })
	default:
		for _, at := range p.Events {
			sp.redact(at)
		}
	}
	return nil
}

// remove removes the events for which drop reports true from the journal and from
// their streams.
func (sp *space) remove(drop func(*journal.Event) bool) {
	sp.events = slices.DeleteFunc(sp.events, drop)
	for name, events := range sp.streams {
		if kept := slices.DeleteFunc(events, drop); len(kept) > 0 {
			sp.streams[name] = kept
		} else {
			delete(sp.streams, name)
		}
	}
}

func (sp *space) redact(at journal.Position) {
	i, ok := slices.BinarySearchFunc(sp.events, at, func(e *journal.Event, at journal.Position) int {
		return e.Position.Compare(at)
	})
	if ok {
		sp.events[i].Redact()
	}
}

package cache

import (
	"container/list"
	"sync"

	"github.com/thole-dev/thole/journal"
)

// StreamKey is the key of a projection's value for one stream.
type StreamKey struct{ Space, Projection, Stream string }

// Projected is a projection's value for one stream.
type Projected struct {
	At     journal.Position // the position up to which Value includes the stream's events
	Erased journal.Position // the space's last purge when the events were read
	Value  any
	Size   int // approximate, in bytes

	key StreamKey
}

// Projections is a least-recently-used cache, bounded by entries and bytes. It is safe
// for concurrent use.
type Projections struct {
	maxBytes int

	mu      sync.Mutex
	era     int // counts calls of DropSpace, so that values computed before one are not kept
	entries map[StreamKey]*list.Element
	recent  *list.List // of *Projected, newest first
	bytes   int
}

const (
	maxProjected = 1 << 16
	overhead     = 512 // approximate bytes of bookkeeping per entry
)

// NewProjections returns an empty cache of approximately maxBytes at most.
func NewProjections(maxBytes int) *Projections {
	return &Projections{maxBytes: maxBytes, entries: make(map[StreamKey]*list.Element), recent: list.New()}
}

// Get returns the value under key, if there is one. The int is the era to pass to Put
// with a value computed from now on.
func (m *Projections) Get(key StreamKey) (Projected, int, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	el := m.entries[key]
	if el == nil {
		return Projected{}, m.era, false
	}
	m.recent.MoveToFront(el)
	return *el.Value.(*Projected), m.era, true
}

// Put stores e, unless there is a newer value already or the era is over.
func (m *Projections) Put(key StreamKey, e Projected, era int) {
	e.key, e.Size = key, e.Size+overhead
	m.mu.Lock()
	defer m.mu.Unlock()
	if era != m.era || e.Size > m.maxBytes {
		return
	}
	if el := m.entries[key]; el != nil {
		if was := el.Value.(*Projected); was.Erased == e.Erased && was.At.Compare(e.At) > 0 {
			return
		}
		m.remove(el)
	}
	m.entries[key] = m.recent.PushFront(&e)
	m.bytes += e.Size
	for m.bytes > m.maxBytes || m.recent.Len() > maxProjected {
		m.remove(m.recent.Back())
	}
}

func (m *Projections) remove(el *list.Element) {
	e := m.recent.Remove(el).(*Projected)
	delete(m.entries, e.key)
	m.bytes -= e.Size
}

// DropSpace removes the values of a space and begins a new era.
func (m *Projections) DropSpace(space string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.era++
	for key, el := range m.entries {
		if key.Space == space {
			m.remove(el)
		}
	}
}

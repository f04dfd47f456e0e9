package cache

import (
	"container/list"
	"sync"

	"github.com/thole-dev/thole/journal"
)

// StreamKey names what a projection keeps of one stream.
type StreamKey struct{ Space, Projection, Stream string }

// Projected is what a projection made of a stream.
type Projected struct {
	At     journal.Position // up to where
	Erased journal.Position // the space's last purge when it was read
	Value  any
	Size   int // in bytes, about

	key StreamKey
}

// Projections is a least-recently-used cache, bounded by entries and bytes.
type Projections struct {
	maxBytes int

	mu      sync.Mutex
	era     int // counts dropped spaces: what was being made meanwhile is not kept
	entries map[StreamKey]*list.Element
	recent  *list.List // of *Projected, newest first
	bytes   int
}

const (
	maxProjected = 1 << 16
	overhead     = 512 // bytes of bookkeeping per entry, about
)

// NewProjections returns an empty cache of at most about maxBytes.
func NewProjections(maxBytes int) *Projections {
	return &Projections{maxBytes: maxBytes, entries: make(map[StreamKey]*list.Element), recent: list.New()}
}

// Get returns what is kept, and the era for a Put of what is made of it.
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

// Put keeps e unless something newer is kept already, or it was begun in an
// earlier era.
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

// DropSpace drops what is kept of a space.
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

package thole

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
)

// Memo keeps in memory what a concept decoded of a stream, such as the newest
// turns of a thread, and rolls it forward by the events since, so that loading
// it again costs no decoding. The zero Memo is not usable; a copy is the same
// Memo. All Memos of a Store share Options.MemoBytes.
//
// A kept value is never taken on trust: it counts only for the version that the
// caller read from the store just now, and if nothing was purged since.
type Memo[S any] struct {
	Name string // unique in the program, such as "thread.tail"
	// Apply returns the value after e. It must leave s as it is: others read it.
	Apply func(s S, e Event) (S, error)
	// Size returns about how many bytes s takes in memory.
	Size func(s S) int
}

// maxRoll is how many events are worth applying one by one.
const maxRoll = 256

// At returns the value of a stream at a version: the position of its newest
// event, or of the commit that wrote the record at its head, as the caller read
// it. What is kept of an earlier version is rolled forward by the stream's
// events up to at. Otherwise load must return the value as of at, from events
// not after it. The value is shared and must not be changed.
//
// Errors: load's, Apply's, those of [Space.Read].
func (m Memo[S]) At(ctx context.Context, sp *Space, stream string, at Position, load func(ctx context.Context) (S, error)) (S, error) {
	key := memoKey{space: sp.name, memo: m.Name, stream: stream}
	erased, err := sp.erased(ctx)
	if err != nil {
		var none S
		return none, err
	}
	kept, era, ok := sp.store.memo.get(key)
	if ok && kept.erased == erased {
		if kept.at == at {
			return kept.value.(S), nil
		}
		if kept.at.Compare(at) < 0 {
			s, rolled, err := m.roll(ctx, sp, stream, kept, at)
			if err != nil {
				return s, err
			}
			if rolled {
				sp.store.memo.put(key, memoEntry{at: at, erased: erased, value: s, size: m.Size(s)}, era)
				return s, nil
			}
		}
	}
	s, err := load(ctx)
	if err == nil {
		sp.store.memo.put(key, memoEntry{at: at, erased: erased, value: s, size: m.Size(s)}, era)
	}
	return s, err
}

// roll applies the events between what is kept and at. Too many of them, or a
// past that is gone, is not rolled.
func (m Memo[S]) roll(ctx context.Context, sp *Space, stream string, kept memoEntry, at Position) (S, bool, error) {
	s := kept.value.(S)
	end := at
	end.Seq++ // Before excludes
	page, err := sp.Read(ctx, ReadQuery{Stream: stream, After: kept.at, Before: end, Limit: maxRoll})
	if errors.Is(err, ErrTrimmed) || err == nil && !page.Next.IsZero() {
		return s, false, nil
	}
	if err != nil {
		return s, false, err
	}
	for _, e := range page.Events {
		if s, err = m.Apply(s, e); err != nil {
			return s, false, fmt.Errorf("%s of %s: %s at %s: %w", m.Name, stream, e.Type, e.Position, err)
		}
	}
	return s, true, nil
}

type memoKey struct{ space, memo, stream string }

type memoEntry struct {
	key    memoKey
	at     Position
	erased Position // the space's last purge when it was read
	value  any
	size   int
}

// memo is a least-recently-used cache, bounded by entries and bytes.
type memo struct {
	maxBytes int

	mu      sync.Mutex
	era     int // counts dropped spaces: what was being made meanwhile is not kept
	entries map[memoKey]*list.Element
	recent  *list.List // of *memoEntry, newest first
	bytes   int
}

const (
	maxMemos     = 1 << 16
	memoOverhead = 512 // bytes of bookkeeping per entry, about
)

func newMemo(maxBytes int) *memo {
	return &memo{maxBytes: maxBytes, entries: make(map[memoKey]*list.Element), recent: list.New()}
}

func (m *memo) get(key memoKey) (memoEntry, int, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	el := m.entries[key]
	if el == nil {
		return memoEntry{}, m.era, false
	}
	m.recent.MoveToFront(el)
	return *el.Value.(*memoEntry), m.era, true
}

// put keeps e unless something newer is kept already, or it was begun in an
// earlier era.
func (m *memo) put(key memoKey, e memoEntry, era int) {
	e.key, e.size = key, e.size+memoOverhead
	m.mu.Lock()
	defer m.mu.Unlock()
	if era != m.era || e.size > m.maxBytes {
		return
	}
	if el := m.entries[key]; el != nil {
		if was := el.Value.(*memoEntry); was.erased == e.erased && was.at.Compare(e.at) > 0 {
			return
		}
		m.remove(el)
	}
	m.entries[key] = m.recent.PushFront(&e)
	m.bytes += e.size
	for m.bytes > m.maxBytes || m.recent.Len() > maxMemos {
		m.remove(m.recent.Back())
	}
}

func (m *memo) remove(el *list.Element) {
	e := m.recent.Remove(el).(*memoEntry)
	delete(m.entries, e.key)
	m.bytes -= e.size
}

func (m *memo) dropSpace(space string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.era++
	for key, el := range m.entries {
		if key.space == space {
			m.remove(el)
		}
	}
}

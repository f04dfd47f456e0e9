package cache

import (
	"sync"

	"github.com/thole-dev/thole/journal"
)

// Records caches the records that this process has last written, so that an update of
// such a record needs no read. If another process has written a record, the cached one
// is out of date; a check in the commit finds that out, and the caller drops it.
// Records is safe for concurrent use.
type Records struct {
	mu     sync.RWMutex
	max    int
	spaces map[string]map[string]journal.Record
	size   int // records
	bytes  int
}

// Bounds in bytes: of one value (a larger one is not kept), and of all entries.
const (
	maxCachedValue = 64 << 10
	maxCachedBytes = 64 << 20
)

// NewRecords returns an empty cache of at most max records.
func NewRecords(max int) *Records {
	return &Records{max: max, spaces: make(map[string]map[string]journal.Record)}
}

// Get returns the record under key, if there is one. Its Value is shared and must not
// be changed.
func (c *Records) Get(space, key string) (journal.Record, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r, ok := c.spaces[space][key]
	return r, ok
}

// Committed stores the records that a batch has written.
func (c *Records) Committed(batch []journal.Commit, results []journal.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range batch {
		if results[i].Conflict != nil {
			continue
		}
		commit := &batch[i]
		for j := range commit.Writes {
			if r := commit.Record(j, results[i]); r.Exists() && len(r.Value) <= maxCachedValue {
				c.put(commit.Space, r)
			} else {
				c.remove(commit.Space, r.Key)
			}
		}
	}
	if c.size > c.max || c.bytes > maxCachedBytes {
		c.evict()
	}
}

// Forget removes the records that a batch may have written.
func (c *Records) Forget(batch []journal.Commit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range batch {
		for _, w := range batch[i].Writes {
			c.remove(batch[i].Space, w.Key)
		}
	}
}

// Drop removes one record.
func (c *Records) Drop(space, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(space, key)
}

// DropSpace removes the records of a space.
func (c *Records) DropSpace(space string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.spaces[space] {
		c.remove(space, key)
	}
}

// evict removes an eighth of the records, in map order.
func (c *Records) evict() {
	for space, m := range c.spaces {
		for key := range m {
			if c.size <= c.max-c.max/8 && c.bytes <= maxCachedBytes-maxCachedBytes/8 {
				return
			}
			c.remove(space, key)
		}
	}
}

func (c *Records) put(space string, r journal.Record) {
	m := c.spaces[space]
	if m == nil {
		m = make(map[string]journal.Record)
		c.spaces[space] = m
	}
	old, replaced := m[r.Key]
	if !replaced {
		c.size++
	}
	m[r.Key] = r
	c.bytes += len(r.Key) + len(r.Value) - len(old.Key) - len(old.Value)
}

func (c *Records) remove(space, key string) {
	m := c.spaces[space]
	r, ok := m[key]
	if !ok {
		return
	}
	c.size--
	c.bytes -= len(r.Key) + len(r.Value)
	if delete(m, key); len(m) == 0 {
		delete(c.spaces, space)
	}
}

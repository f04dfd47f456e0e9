package thole

import "sync"

// recordCache holds what this process last wrote, so that an update of its own
// record needs no read. It may be out of date when another process writes: only
// checks decide, and a failed one drops what misled it.
type recordCache struct {
	mu     sync.RWMutex
	max    int
	spaces map[string]map[string]Record
	size   int
}

func newRecordCache(max int) *recordCache {
	return &recordCache{max: max, spaces: make(map[string]map[string]Record)}
}

func (c *recordCache) get(space, key string) (Record, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r, ok := c.spaces[space][key]
	return r, ok
}

func (c *recordCache) committed(commit *Commit, res Result) {
	if len(commit.Writes) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.spaces[commit.Space]
	if m == nil {
		m = make(map[string]Record)
		c.spaces[commit.Space] = m
	}
	before := len(m)
	for _, w := range commit.Writes {
		if w.Value == nil {
			delete(m, w.Key)
			continue
		}
		m[w.Key] = Record{Key: w.Key, Value: w.Value, Schema: w.Schema, Version: res.Last,
			Updated: commit.Now, Expires: w.Expires, Notify: w.Notify}
	}
	c.size += len(m) - before
	if c.size > c.max {
		c.evict()
	}
}

// evict drops an eighth of the records; map order makes the choice.
func (c *recordCache) evict() {
	goal := c.max - c.max/8
	for space, m := range c.spaces {
		for key := range m {
			if c.size <= goal {
				return
			}
			delete(m, key)
			c.size--
		}
		if len(m) == 0 {
			delete(c.spaces, space)
		}
	}
}

func (c *recordCache) drop(space, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.spaces[space][key]; ok {
		delete(c.spaces[space], key)
		c.size--
	}
}

func (c *recordCache) dropSpace(space string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size -= len(c.spaces[space])
	delete(c.spaces, space)
}

package fanout

import "github.com/thole-dev/thole/journal"

// push appends d and forgets the oldest beyond the limit.
func (h *hub) push(d item) {
	h.ring = append(h.ring, d)
	h.bytes += d.weight()
	for h.bytes > h.limit && len(h.ring) > 1 {
		old := h.ring[0]
		if !old.IsBroadcast() {
			h.base = old.Position
		}
		h.bytes -= old.weight()
		h.ring[0] = item{}
		h.ring = h.ring[1:]
		h.start++
	}
}

// weight is about how many bytes d takes in memory.
func (d item) weight() int { return d.Size() + 16*len(d.Refs) + 256 }

// announce wakes who waits. The caller holds mu.
func (h *hub) announce() {
	if h.waiting {
		close(h.changed)
		h.changed = make(chan struct{})
		h.waiting = false
	}
}

// take hands the cursor what it has not seen, or a channel to wait on.
func (h *hub) take(c *Cursor) ([]*journal.Delivery, <-chan struct{}, error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, nil, journal.ErrClosed
	}
	if c.next < h.start || c.era != h.era {
		c.live = false // fell behind: go on from the journal
		h.mu.Unlock()
		return nil, nil, nil
	}
	fresh := h.ring[c.next-h.start:]
	if len(fresh) == 0 {
		changed := h.changed
		h.waiting = true
		clear(c.fresh) // an idle cursor keeps nothing alive
		clear(c.out)
		if h.head.Compare(c.pos) > 0 {
			c.pos = h.head
		}
		h.mu.Unlock()
		return nil, changed, nil
	}
	c.fresh = append(c.fresh[:0], fresh[:min(len(fresh), 512)]...)
	c.next += uint64(len(c.fresh))
	h.mu.Unlock()

	c.out = c.out[:0]
	for _, d := range c.fresh {
		switch {
		case d.IsBroadcast():
			if d.nth <= c.since {
				continue
			}
		case d.Position.Compare(c.pos) <= 0:
			continue
		default:
			c.pos = d.Position
		}
		if c.opts.match(d.Delivery) {
			c.out = append(c.out, d.Delivery)
		}
	}
	return c.out, nil, nil
}

// join makes the cursor live if the ring reaches back to its place.
func (h *hub) join(c *Cursor) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed && (!h.begun || c.era != h.era || c.pos.Compare(h.base) < 0) {
		return false
	}
	c.live = true
	c.next = h.start
	// Broadcasts older than the cursor's place are not for it.
	for i, d := range h.ring {
		if !d.IsBroadcast() && d.Position.Compare(c.pos) <= 0 {
			c.next = h.start + uint64(i) + 1
		}
	}
	return true
}

package fanout

import "github.com/thole-dev/thole/journal"

// push appends d to the ring and removes the oldest items beyond the limit.
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

// weight returns the approximate number of bytes that d takes in memory.
func (d item) weight() int { return d.Size() + 16*len(d.Refs) + 256 }

// announce wakes the waiting cursors. The caller holds mu.
func (h *hub) announce() { h.waiting.wakeAll() }

// take returns the deliveries that the cursor has not seen, or a channel to wait on. If
// it returns neither, the cursor must call again or has to read from the journal.
func (h *hub) take(c *Cursor) ([]*journal.Delivery, <-chan struct{}, error) {
	h.mu.Lock()
	h.waiting.wakeOne()
	if h.closed {
		h.mu.Unlock()
		return nil, nil, journal.ErrClosed
	}
	if c.next < h.start || c.era != h.era {
		c.live = false // it fell behind: continue from the journal
		h.mu.Unlock()
		return nil, nil, nil
	}
	fresh := h.ring[c.next-h.start:]
	if len(fresh) == 0 {
		changed := h.waiting.join(c)
		clear(c.fresh) // so that an idle cursor keeps no items in memory
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

// join makes the cursor live if the ring reaches back to its position.
func (h *hub) join(c *Cursor) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed && (!h.begun || c.era != h.era || c.pos.Compare(h.base) < 0) {
		return false
	}
	c.live = true
	c.next = h.start
	// Skip broadcasts older than the cursor's position.
	for i, d := range h.ring {
		if !d.IsBroadcast() && d.Position.Compare(c.pos) <= 0 {
			c.next = h.start + uint64(i) + 1
		}
	}
	return true
}

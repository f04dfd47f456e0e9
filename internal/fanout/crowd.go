package fanout

// crowd is the cursors that wait for something new in a hub. They are woken a few at a time:
// whoever is awake wakes the next. If all were made ready to run at once, a writer, which
// every write to the disk puts at the end of Go's queue, would wait for a thousand watchers
// to be served before it can acknowledge a commit.
type crowd struct {
	cursors []*Cursor
	due     int // the first of them are to be woken
}

// herd is how many cursors are made ready at once: enough to keep the cores busy.
const herd = 32

// join adds c, if it is not there yet, and returns the channel that wakes it.
func (w *crowd) join(c *Cursor) <-chan struct{} {
	if c.place == 0 {
		w.cursors = append(w.cursors, c)
		c.place = len(w.cursors)
	}
	return c.wake
}

// wakeAll begins to wake all.
func (w *crowd) wakeAll() {
	w.due = len(w.cursors)
	for range herd {
		w.wakeOne()
	}
}

// wakeOne wakes one of those that are due. Each cursor calls it after it was woken, or that
// chain ends.
func (w *crowd) wakeOne() {
	if w.due == 0 {
		return
	}
	c := w.cursors[w.due-1]
	w.remove(c)
	select {
	case c.wake <- struct{}{}:
	default: // it was woken before, and did not wait
	}
}

// remove removes c.
func (w *crowd) remove(c *Cursor) {
	hole := c.place - 1
	if hole < w.due {
		w.due--
		hole = w.move(w.due, hole)
	}
	last := w.move(len(w.cursors)-1, hole)
	w.cursors[last] = nil
	w.cursors = w.cursors[:last]
	c.place = 0
}

// move fills the hole with the cursor at from, and returns from, where the hole is then.
func (w *crowd) move(from, hole int) int {
	if from != hole {
		w.cursors[hole] = w.cursors[from]
		w.cursors[hole].place = hole + 1
	}
	return from
}

// leave removes a cursor that no longer waits. If it was woken just then, the next is.
func (h *hub) leave(c *Cursor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.place > 0 {
		h.waiting.remove(c)
		return
	}
	select {
	case <-c.wake:
	default:
	}
	h.waiting.wakeOne()
}

package thole

import (
	"slices"
	"sync"
)

// hubs are the spaces that someone in this process watches.
type hubs struct {
	mu     sync.RWMutex
	m      map[string]*hub
	closed bool

	touched []*hub // by the batch at hand; that of who calls committed, one at a time

	hintMu sync.Mutex
	hinted map[string]bool // spaces to look at; "" means all
	wake   chan struct{}   // capacity 1: hinted is not empty
}

func newHubs() *hubs {
	return &hubs{m: make(map[string]*hub), hinted: make(map[string]bool), wake: make(chan struct{}, 1)}
}

// hint makes poll look at a space soon.
func (hs *hubs) hint(space string) {
	hs.hintMu.Lock()
	hs.hinted[space] = true
	hs.hintMu.Unlock()
	select {
	case hs.wake <- struct{}{}:
	default:
	}
}

// hints returns the watched spaces that were hinted at since the last call.
func (hs *hubs) hints() []string {
	hs.hintMu.Lock()
	hinted := hs.hinted
	hs.hinted = make(map[string]bool)
	hs.hintMu.Unlock()
	names := hs.names()
	if !hinted[""] {
		names = slices.DeleteFunc(names, func(n string) bool { return !hinted[n] })
	}
	return names
}

// hub is the newest part of one space's journal, with the signals between,
// shared by its watchers. Events enter it in journal order without a gap: from
// the batcher while this process is the only writer, otherwise from the
// journal.
type hub struct {
	space *Space
	limit int // bytes in the ring

	watchers int // guarded by hubs.mu

	mu      sync.Mutex
	era     int  // counts resets; a watch is live only in the era its place was checked in
	begun   bool // in this era, base and head are known
	missed  bool // something was committed before that
	closed  bool
	ring    []*Delivery
	start   uint64      // index of ring[0]; only grows
	bytes   int         // in the ring
	base    Position    // the place before ring[0]: whoever is there may join
	head    Position    // everything up to here is in the ring or before it
	held    []*Delivery // signals of other Stores that wait for the next look at the journal
	waits   int         // bytes in held
	changed chan struct{}
	waiting bool // someone has got changed
}

func (hs *hubs) attach(sp *Space) (*hub, error) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.closed {
		return nil, ErrClosed
	}
	h := hs.m[sp.name]
	if h == nil {
		h = &hub{space: sp.store.Space(sp.name), limit: sp.store.opts.RingBytes, changed: make(chan struct{})}
		hs.m[sp.name] = h
	}
	h.watchers++
	return h, nil
}

func (hs *hubs) detach(h *hub) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h.watchers--; h.watchers == 0 && hs.m[h.space.name] == h {
		delete(hs.m, h.space.name)
	}
}

func (hs *hubs) find(space string) *hub {
	hs.mu.RLock()
	defer hs.mu.RUnlock()
	return hs.m[space]
}

func (hs *hubs) count(space string) int {
	hs.mu.RLock()
	defer hs.mu.RUnlock()
	if h := hs.m[space]; h != nil {
		return h.watchers
	}
	return 0
}

func (hs *hubs) names() []string {
	hs.mu.RLock()
	defer hs.mu.RUnlock()
	names := make([]string, 0, len(hs.m))
	for name := range hs.m {
		names = append(names, name)
	}
	return names
}

// committed hands a batch to the hubs and wakes the watchers of each once.
func (hs *hubs) committed(batch []Commit, results []Result) {
	hs.mu.RLock()
	for i := range batch {
		if results[i].Conflict != nil {
			continue
		}
		if h := hs.m[batch[i].Space]; h != nil && h.committed(&batch[i], results[i]) && !slices.Contains(hs.touched, h) {
			hs.touched = append(hs.touched, h)
		}
	}
	hs.mu.RUnlock()
	for _, h := range hs.touched {
		h.mu.Lock()
		h.announce()
		h.mu.Unlock()
	}
	clear(hs.touched)
	hs.touched = hs.touched[:0]
}

// reset begins a new era for a space whose past changed: its watchers look at
// the journal again and find out what became of their place.
func (hs *hubs) reset(space string) {
	if h := hs.find(space); h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.start += uint64(len(h.ring))
		h.ring, h.bytes = nil, 0
		h.base, h.head = Position{}, Position{}
		h.begun = false
		h.held, h.waits = nil, 0
		h.era++
		h.announce()
	}
}

func (hs *hubs) close() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.closed = true
	for _, h := range hs.m {
		h.mu.Lock()
		h.closed = true
		h.announce()
		h.mu.Unlock()
	}
}

// begin sets where the ring starts, once in an era: at a head that was read
// after the era began.
func (h *hub) begin(head Head, era int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun || h.era != era {
		return
	}
	h.begun = true
	h.base, h.head = head.Last, head.Last
	if h.missed {
		h.missed = false
		h.space.store.hubs.hint(h.space.name)
	}
}

// place is up to where the hub knows the journal.
type place struct {
	head  Position
	era   int
	begun bool
	end   uint64 // index behind the ring
	held  int    // signals that waited then
}

func (h *hub) place() place {
	h.mu.Lock()
	defer h.mu.Unlock()
	return place{head: h.head, era: h.era, begun: h.begun, end: h.start + uint64(len(h.ring)), held: len(h.held)}
}

// committed appends what this process committed, if it follows directly, and
// reports whether there is something to announce.
func (h *hub) committed(c *Commit, res Result) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := res.Last
	first.Seq -= uint64(max(len(c.Events), 1) - 1)
	switch follows := first.Seq == h.head.Seq+1 && (h.head.IsZero() || first.Epoch == h.head.Epoch); {
	case !h.begun:
		h.missed = true
		return false
	case first.Epoch == h.head.Epoch && res.Last.Seq <= h.head.Seq:
		return false // it was read from the journal already
	case !follows:
		h.space.store.hubs.hint(h.space.name)
		return false
	}
	for i := range c.Events {
		e := c.Events[i]
		e.Position = Position{Epoch: first.Epoch, Seq: first.Seq + uint64(i)}
		e.Time, e.Actor, e.Cause = c.Now, c.Actor, c.Cause
		e.Refs = slices.Clone(e.Refs) // the caller's, in an Update
		h.push(&Delivery{Event: e})
	}
	h.head = res.Last
	return len(c.Events) > 0
}

func (h *hub) signal(d *Delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun {
		h.push(d)
		h.announce()
	}
}

// relayed is signal for one of another Store, whose sender knew the journal up to
// after. If the hub has not come that far, the signal waits for the next look at
// the journal, whatever that finds; so do those that come behind it.
func (h *hub) relayed(d *Delivery, after Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.begun:
	case len(h.held) == 0 && after.Compare(h.head) <= 0:
		h.push(d)
		h.announce()
	case h.waits < maxHeldSignals:
		h.held = append(h.held, d)
		h.waits += weight(d)
		h.space.store.hubs.hint(h.space.name)
	}
}

// looked lets those signals go that waited when a look at the journal began.
func (h *hub) looked(at place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at.held == 0 || h.era != at.era {
		return
	}
	for _, d := range h.held[:at.held] {
		h.push(d)
		h.waits -= weight(d)
	}
	h.held = h.held[at.held:]
	h.announce()
}

// push appends d and forgets the oldest beyond the limit.
func (h *hub) push(d *Delivery) {
	h.ring = append(h.ring, d)
	h.bytes += weight(d)
	for h.bytes > h.limit && len(h.ring) > 1 {
		old := h.ring[0]
		if !old.IsSignal() {
			h.base = old.Position
		}
		h.bytes -= weight(old)
		h.ring[0] = nil
		h.ring = h.ring[1:]
		h.start++
	}
}

func weight(d *Delivery) int { return d.size() + 16*len(d.Refs) + 256 }

// announce wakes who waits. The caller holds mu.
func (h *hub) announce() {
	if h.waiting {
		close(h.changed)
		h.changed = make(chan struct{})
		h.waiting = false
	}
}

// take hands the watch what it has not seen, or a channel to wait on.
func (h *hub) take(w *Watch) ([]*Delivery, <-chan struct{}, error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, nil, ErrClosed
	}
	if w.next < h.start || w.era != h.era {
		w.live = false // fell behind: go on from the journal
		h.mu.Unlock()
		return nil, nil, nil
	}
	fresh := h.ring[w.next-h.start:]
	if len(fresh) == 0 {
		changed := h.changed
		h.waiting = true
		clear(w.batch) // an idle watch keeps nothing alive
		if h.head.Compare(w.pos) > 0 {
			w.pos = h.head
		}
		h.mu.Unlock()
		return nil, changed, nil
	}
	from := w.next
	w.batch = append(w.batch[:0], fresh[:min(len(fresh), 512)]...)
	w.next += uint64(len(w.batch))
	h.mu.Unlock()

	out := w.batch[:0]
	for i, d := range w.batch {
		switch {
		case d.IsSignal():
			if from+uint64(i) < w.since {
				continue
			}
		case d.Position.Compare(w.pos) <= 0:
			continue
		default:
			w.pos = d.Position
		}
		if w.opts.match(d) {
			out = append(out, d)
		}
	}
	return out, nil, nil
}

// join makes the watch live if the ring reaches back to its place.
func (h *hub) join(w *Watch) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed && (!h.begun || w.era != h.era || w.pos.Compare(h.base) < 0) {
		return false
	}
	w.live = true
	w.next = h.start
	// Signals older than the watch's place are not for it.
	for i, d := range h.ring {
		if !d.IsSignal() && d.Position.Compare(w.pos) <= 0 {
			w.next = h.start + uint64(i) + 1
		}
	}
	return true
}

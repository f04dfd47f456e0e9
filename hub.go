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
	later  []string        // spaces to look at after the batch at hand
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

// postpone makes poll look at a space once the batch at hand has ended.
func (hs *hubs) postpone(space string) {
	hs.hintMu.Lock()
	defer hs.hintMu.Unlock()
	hs.later = append(hs.later, space)
}

// resume hints at what was postponed.
func (hs *hubs) resume() {
	hs.hintMu.Lock()
	later := hs.later
	hs.later = nil
	hs.hintMu.Unlock()
	for _, space := range later {
		hs.hint(space)
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

// hub is the newest part of one space's journal, with the broadcasts between,
// shared by its watchers. Events enter it in journal order without a gap: from
// the batcher while this process is the only writer, otherwise from the
// journal.
type hub struct {
	space *Space
	limit int // bytes in the ring

	watchers int // guarded by hubs.mu

	mu         sync.Mutex
	erased     Position // the space's last purge at the last look
	looks      int      // for it
	era        int      // counts resets; a watch is live only in the era its place was checked in
	begun      bool     // in this era, base and head are known
	missed     bool     // something was committed before that
	closed     bool
	ring       []*Delivery
	start      uint64      // index of ring[0]; only grows
	bytes      int         // in the ring
	base       Position    // the place before ring[0]: whoever is there may join
	head       Position    // everything up to here is in the ring or before it
	known      Position    // everything between head and here is in held
	held       []*Delivery // broadcasts that wait for a look at the journal, and this Store's events behind them
	events     int         // events in held
	waits      int         // bytes in held
	batch      uint64      // for whose end the looks at the journal wait that are to release what is held; 0: none
	broadcasts uint64      // that came in so far
	changed    chan struct{}
	waiting    bool // someone has got changed
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
		h.base, h.head, h.known = Position{}, Position{}, Position{}
		h.begun = false
		h.held, h.events, h.waits = nil, 0, 0
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
	h.base, h.head, h.known = head.Last, head.Last, head.Last
	if h.missed {
		h.missed = false
		h.space.store.hubs.hint(h.space.name)
	}
}

// place is up to where the hub knows the journal.
type place struct {
	head       Position
	era        int
	begun      bool
	broadcasts uint64 // that had come in
}

func (h *hub) place() place {
	h.mu.Lock()
	defer h.mu.Unlock()
	return place{head: h.head, era: h.era, begun: h.begun, broadcasts: h.broadcasts}
}

// gone reports whether what a hub held at the place is none of the journal's any
// more, whose head was read after it: the space is another one now, was changed by
// something else than commits, or was trimmed beyond the place.
func (p place) gone(head Head) bool {
	return p.begun && (head.Resume(p.head) != nil || head.Adopted() > p.head.Epoch)
}

// committed appends what this process committed, if it follows directly, and
// reports whether there is something to announce.
func (h *hub) committed(c *Commit, res Result) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := res.Last
	first.Seq -= uint64(max(len(c.Events), 1) - 1)
	switch follows := first.Seq == h.known.Seq+1 && (h.known.IsZero() || first.Epoch == h.known.Epoch); {
	case !h.begun:
		h.missed = true
		return false
	case first.Epoch == h.known.Epoch && res.Last.Seq <= h.known.Seq:
		return false // it was read from the journal already
	case !follows:
		h.space.store.hubs.hint(h.space.name)
		return false
	}
	for i := range c.Events {
		e := c.Event(i, res)
		e.Refs = slices.Clone(e.Refs) // the caller's, in an Update
		h.queue(&Delivery{Event: e})
	}
	h.known = res.Last
	h.settle()
	return len(c.Events) > 0
}

// broadcast takes in a live message, of this Store or another. It waits for a look
// at the journal that begins after it came: that look finds every event that was
// acknowledged, by any process, before the message was sent, and the message goes
// behind them. This is the only order there is between messages and events.
func (h *hub) broadcast(d *Delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.begun || h.waits >= maxHeldBroadcasts {
		return
	}
	h.broadcasts++
	d.nth = h.broadcasts
	h.held = append(h.held, d)
	h.waits += weight(d)
	h.space.store.hubs.hint(h.space.name)
}

// queue puts an event of this Store, which follows directly, behind the broadcasts
// that wait: it was committed after they were sent. Too much that waits costs
// the broadcasts.
func (h *hub) queue(d *Delivery) {
	switch {
	case len(h.held) == 0:
		h.push(d)
	case h.waits >= maxHeldBroadcasts:
		h.overtake()
		h.held, h.waits = nil, 0
		h.push(d)
	default:
		h.held = append(h.held, d)
		h.waits += weight(d)
		h.events++
	}
}

// overtake lets the events that wait go before the broadcasts that wait: another
// process's event, which may be older than the broadcasts, comes behind those events.
func (h *hub) overtake() {
	if h.events == 0 {
		return
	}
	h.held = slices.DeleteFunc(h.held, func(d *Delivery) bool {
		if d.IsBroadcast() {
			return false
		}
		h.waits -= weight(d)
		h.push(d)
		return true
	})
	h.events = 0
	h.settle()
}

// looked lets go, in their order, the broadcasts that waited when a look at the
// journal began, and the events between them.
func (h *hub) looked(at place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.held) == 0 || h.era != at.era {
		return
	}
	n := 0
	for _, d := range h.held {
		if d.nth > at.broadcasts {
			break
		}
		h.push(d)
		h.waits -= weight(d)
		if n++; !d.IsBroadcast() {
			h.head = d.Position
			h.events--
		}
	}
	h.held = slices.Delete(h.held, 0, n)
	h.batch = 0
	h.settle()
	h.announce()
}

// beyond reports whether the journal, up to last, has more than the hub, and
// whether to wait before it is read: it may be this Store's own, committed after
// the broadcasts that wait, and then the hub hears of it when the batch at hand ends.
// One batch is waited for, not those behind it.
func (h *hub) beyond(last Position) (more, wait bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last.Compare(h.known) <= 0 {
		return false, false
	}
	if len(h.held) == 0 {
		return true, false
	}
	h.space.store.hubs.postpone(h.space.name)
	batch := h.space.store.commits.Busy(h.space.name)
	if h.batch == 0 {
		h.batch = batch
	}
	return true, batch != 0 && batch == h.batch
}

// settle moves head to known if no event waits.
func (h *hub) settle() {
	if h.events == 0 {
		h.head = h.known
	}
}

// push appends d and forgets the oldest beyond the limit.
func (h *hub) push(d *Delivery) {
	h.ring = append(h.ring, d)
	h.bytes += weight(d)
	for h.bytes > h.limit && len(h.ring) > 1 {
		old := h.ring[0]
		if !old.IsBroadcast() {
			h.base = old.Position
		}
		h.bytes -= weight(old)
		h.ring[0] = nil
		h.ring = h.ring[1:]
		h.start++
	}
}

func weight(d *Delivery) int { return d.Size() + 16*len(d.Refs) + 256 }

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
	w.batch = append(w.batch[:0], fresh[:min(len(fresh), 512)]...)
	w.next += uint64(len(w.batch))
	h.mu.Unlock()

	out := w.batch[:0]
	for _, d := range w.batch {
		switch {
		case d.IsBroadcast():
			if d.nth <= w.since {
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
	// Broadcasts older than the watch's place are not for it.
	for i, d := range h.ring {
		if !d.IsBroadcast() && d.Position.Compare(w.pos) <= 0 {
			w.next = h.start + uint64(i) + 1
		}
	}
	return true
}

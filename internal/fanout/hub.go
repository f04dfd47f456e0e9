package fanout

import (
	"slices"
	"sync"

	"github.com/thole-dev/thole/journal"
)

// maxHeld is how many bytes of broadcasts wait in a hub for a look at the journal.
const maxHeld = 1 << 20

// hub is the newest part of one space's journal, with the broadcasts between,
// shared by its watchers. Events enter it in journal order without a gap: from
// the batcher while this process is the only writer, otherwise from the
// journal.
type hub struct {
	fanout *Fanout
	space  string
	limit  int // bytes in the ring

	watchers int // guarded by fanout.mu

	mu         sync.Mutex
	erased     journal.Position // the space's last purge at the last look
	looks      int              // for it
	era        int              // counts resets; a watch is live only in the era its place was checked in
	begun      bool             // in this era, base and head are known
	missed     bool             // something was committed before that
	closed     bool
	ring       []item
	start      uint64           // index of ring[0]; only grows
	bytes      int              // in the ring
	base       journal.Position // the place before ring[0]: whoever is there may join
	head       journal.Position // everything up to here is in the ring or before it
	known      journal.Position // everything between head and here is in held
	held       []item           // broadcasts that wait for a look at the journal, and this Store's events behind them
	events     int              // events in held
	waits      int              // bytes in held
	batch      uint64           // for whose end the looks at the journal wait that are to release what is held; 0: none
	broadcasts uint64           // that came in so far
	changed    chan struct{}
	waiting    bool // someone has got changed
}

// item is what is in a hub.
type item struct {
	*journal.Delivery
	nth uint64 // of a broadcast: how many came to the hub before it, and itself
}

// begin sets where the ring starts, once in an era: at a head that was read
// after the era began.
func (h *hub) begin(head journal.Head, era int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun || h.era != era {
		return
	}
	h.begun = true
	h.base, h.head, h.known = head.Last, head.Last, head.Last
	if h.missed {
		h.missed = false
		h.fanout.Hint(h.space)
	}
}

// place is up to where the hub knows the journal.
type place struct {
	head       journal.Position
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
func (p place) gone(head journal.Head) bool {
	return p.begun && (head.Resume(p.head) != nil || head.Adopted() > p.head.Epoch)
}

// reset begins a new era.
func (h *hub) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.start += uint64(len(h.ring))
	h.ring, h.bytes = nil, 0
	h.base, h.head, h.known = journal.Position{}, journal.Position{}, journal.Position{}
	h.begun = false
	h.held, h.events, h.waits = nil, 0, 0
	h.era++
	h.announce()
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.announce()
}

// committed appends what this process committed, if it follows directly, and
// reports whether there is something to announce.
func (h *hub) committed(c *journal.Commit, res journal.Result) bool {
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
		h.fanout.Hint(h.space)
		return false
	}
	for i := range c.Events {
		e := c.Event(i, res)
		e.Refs = slices.Clone(e.Refs) // the caller's, in an Update
		h.queue(item{Delivery: &journal.Delivery{Event: e}})
	}
	h.known = res.Last
	h.settle()
	return len(c.Events) > 0
}

// broadcast takes in a live message, of this Store or another. It waits for a look
// at the journal that begins after it came: that look finds every event that was
// acknowledged, by any process, before the message was sent, and the message goes
// behind them. This is the only order there is between messages and events.
func (h *hub) broadcast(d *journal.Delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.begun || h.waits >= maxHeld {
		return
	}
	h.broadcasts++
	held := item{d, h.broadcasts}
	h.held = append(h.held, held)
	h.waits += held.weight()
	h.fanout.Hint(h.space)
}

// queue puts an event of this Store, which follows directly, behind the broadcasts
// that wait: it was committed after they were sent. Too much that waits costs
// the broadcasts.
func (h *hub) queue(d item) {
	switch {
	case len(h.held) == 0:
		h.push(d)
	case h.waits >= maxHeld:
		h.overtake()
		h.held, h.waits = nil, 0
		h.push(d)
	default:
		h.held = append(h.held, d)
		h.waits += d.weight()
		h.events++
	}
}

// overtake lets the events that wait go before the broadcasts that wait: another
// process's event, which may be older than the broadcasts, comes behind those events.
func (h *hub) overtake() {
	if h.events == 0 {
		return
	}
	h.held = slices.DeleteFunc(h.held, func(d item) bool {
		if d.IsBroadcast() {
			return false
		}
		h.waits -= d.weight()
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
		h.waits -= d.weight()
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
func (h *hub) beyond(last journal.Position) (more, wait bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last.Compare(h.known) <= 0 {
		return false, false
	}
	if len(h.held) == 0 {
		return true, false
	}
	h.fanout.postpone(h.space)
	batch := h.fanout.source.Busy(h.space)
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

// append pushes those events of a page that the hub does not have, unless its
// era is over.
func (h *hub) append(era int, page journal.Page, last journal.Position) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.era != era {
		return false
	}
	for _, e := range page.Events {
		// An epoch that began since may be an adopted one, and an event that was
		// committed since may be of this Store, behind broadcasts that wait.
		if e.Position.Epoch > last.Epoch || len(h.held) > 0 && e.Position.Compare(last) > 0 {
			h.fanout.Hint(h.space)
			h.announce()
			return false
		}
		if e.Position.Compare(h.known) > 0 {
			h.overtake()
			h.push(item{Delivery: &journal.Delivery{Event: e}})
			h.known = e.Position
			h.settle()
		}
	}
	// Commits without events moved the head and left nothing to read.
	if page.Next.IsZero() && last.Compare(h.known) > 0 {
		h.known = last
		h.settle()
	}
	h.announce()
	return true
}

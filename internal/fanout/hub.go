package fanout

import (
	"slices"
	"sync"

	"github.com/thole-dev/thole/journal"
)

// maxHeld bounds the bytes of the items that a hub holds back until it has read the
// journal.
const maxHeld = 1 << 20

// hub is the newest part of one space's journal, interleaved with broadcasts and shared
// by the space's watchers. Events enter it in journal order without a gap: from the
// group commit while this process is the only writer, else from the journal.
type hub struct {
	fanout *Fanout
	space  string
	limit  int // bytes in the ring

	watchers int // guarded by fanout.mu

	mu         sync.Mutex
	erased     journal.Position // the space's last purge, at the last checkErased
	looks      int              // the number of calls of checkErased
	era        int              // counts resets; a cursor is live only in the era in which its position was checked
	begun      bool             // base and head are known in this era
	missed     bool             // something was committed in this era before begun
	closed     bool
	ring       []item
	start      uint64           // index of ring[0]; only grows
	bytes      int              // bytes in the ring
	base       journal.Position // the position before ring[0], from which a cursor may join
	head       journal.Position // everything up to here is in the ring or before it
	known      journal.Position // the events between head and here are in held
	held       []item           // broadcasts that wait until the journal was read, and this Store's events after them
	events     int              // events in held
	waits      int              // bytes in held
	batch      uint64           // the batch whose end CatchUp waits for before it releases held; 0: none
	broadcasts uint64           // the number of broadcasts so far
	changed    chan struct{}
	waiting    bool // a cursor waits for changed
}

// item is an event or a broadcast in a hub.
type item struct {
	*journal.Delivery
	nth uint64 // of a broadcast: its number in the hub, from 1
}

// begin sets the position at which the ring starts, once in an era. The head must have
// been read after the era began.
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

// place is the state of a hub: the position up to which it knows the journal.
type place struct {
	head       journal.Position
	era        int
	begun      bool
	broadcasts uint64 // the number of broadcasts so far
}

func (h *hub) place() place {
	h.mu.Lock()
	defer h.mu.Unlock()
	return place{head: h.head, era: h.era, begun: h.begun, broadcasts: h.broadcasts}
}

// gone reports whether the hub's content at p is no longer valid, given a head that was
// read later: the space was deleted and created again, something other than a commit
// changed it, or it was trimmed beyond p.
func (p place) gone(head journal.Head) bool {
	return p.begun && (head.Resume(p.head) != nil || head.Adopted() > p.head.Epoch)
}

// reset empties the hub and begins a new era.
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

// committed appends the events of a commit of this process if they directly follow the
// known ones. It reports whether there is something to announce.
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
		return false // already read from the journal
	case !follows:
		h.fanout.Hint(h.space)
		return false
	}
	for i := range c.Events {
		e := c.Event(i, res)
		e.Refs = slices.Clone(e.Refs) // in an Update they belong to the caller
		h.queue(item{Delivery: &journal.Delivery{Event: e}})
	}
	h.known = res.Last
	h.settle()
	return len(c.Events) > 0
}

// broadcast adds a live message of this or another Store. The hub holds it back until a
// CatchUp that began after its arrival has read the journal. That CatchUp finds every
// event that any process acknowledged before the message was sent, and the message
// follows those events. This is the only guaranteed order between messages and events.
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

// queue appends an event of this Store, which directly follows the known ones, after
// the broadcasts in held, because it was committed after they were sent. If held is
// full, the broadcasts in it are dropped.
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

// overtake pushes the events in held, ahead of the broadcasts in held. It is called
// before an event of another process is pushed, which follows these events and may be
// older than the broadcasts.
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

// looked releases from held, in order, the broadcasts that had arrived when CatchUp
// took the place at, and the events between them. CatchUp has now read the journal.
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

// beyond reports whether the journal, which ends at last, has more than the hub, and
// whether to wait before reading it. The new events may be this Store's own, committed
// after the broadcasts in held; then Committed brings them when the current batch ends.
// CatchUp waits for one batch, not for later ones.
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

// settle sets head to known if there is no event in held.
func (h *hub) settle() {
	if h.events == 0 {
		h.head = h.known
	}
}

// append pushes the events of a page that the hub does not have yet. It returns false
// if the era is over or the page must be read again later.
func (h *hub) append(era int, page journal.Page, last journal.Position) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.era != era {
		return false
	}
	for _, e := range page.Events {
		// An epoch that began after last may be adopted, and an event after last may be
		// this Store's own, which belongs after the broadcasts in held.
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
	// Commits without events move the head but leave nothing to read.
	if page.Next.IsZero() && last.Compare(h.known) > 0 {
		h.known = last
		h.settle()
	}
	h.announce()
	return true
}

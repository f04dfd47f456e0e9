package fanout

import (
	"slices"
	"sync"

	"github.com/thole-dev/thole/journal"
)

// maxPending bounds the bytes of the items that a hub holds back until it has read the
// journal.
const maxPending = 1 << 20

// hub is the newest part of one space's journal, interleaved with broadcasts and shared
// by the space's watchers. Events enter it in journal order without a gap: from the
// group commit while this process is the only writer, else from the journal.
type hub struct {
	fanout *Fanout
	space  string
	limit  int // bytes in the ring

	watchers int // guarded by fanout.mu

	mu            sync.Mutex
	erased        journal.Position // the space's last purge, at the last checkErased
	checked       bool             // checkErased was called
	era           int              // counts resets; a cursor is live only in the era in which its position was checked
	begun         bool             // base and head are known in this era
	missed        bool             // something was committed in this era before begun
	closed        bool
	ring          []item
	start         uint64           // index of ring[0]; only grows
	bytes         int              // bytes in the ring
	base          journal.Position // the position before ring[0], from which a cursor may join
	head          journal.Position // everything up to here is in the ring or before it
	known         journal.Position // the events between head and here are pending
	pending       []item           // broadcasts that wait until the journal was read, and this Store's events after them
	pendingEvents int
	pendingBytes  int
	batch         uint64 // the batch whose end CatchUp waits for before it releases pending; 0: none
	broadcasts    uint64 // the number of broadcasts so far
	waiting       crowd  // the cursors that have everything
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

// state is a hub's state at one moment: the position up to which it knows the journal.
type state struct {
	head       journal.Position
	era        int
	begun      bool
	broadcasts uint64 // the number of broadcasts so far
}

func (h *hub) state() state {
	h.mu.Lock()
	defer h.mu.Unlock()
	return state{head: h.head, era: h.era, begun: h.begun, broadcasts: h.broadcasts}
}

// gone reports whether the content of a hub in state s is no longer valid, given a head
// that was read later: the space was deleted and created again, something other than a
// commit changed it, or it was trimmed beyond s.head.
func (s state) gone(head journal.Head) bool {
	return s.begun && (head.Resume(s.head) != nil || head.Adopted() > s.head.Epoch)
}

// reset empties the hub and begins a new era.
func (h *hub) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.start += uint64(len(h.ring))
	h.ring, h.bytes = nil, 0
	h.base, h.head, h.known = journal.Position{}, journal.Position{}, journal.Position{}
	h.begun = false
	h.pending, h.pendingEvents, h.pendingBytes = nil, 0, 0
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
		h.fanout.source.Lift(&e)
		h.queue(item{Delivery: &journal.Delivery{Event: e}})
	}
	h.known = res.Last
	h.advanceHead()
	return len(c.Events) > 0
}

// broadcast adds a live message of this or another Store. The hub holds it back until a
// CatchUp that began after its arrival has read the journal. That CatchUp finds every
// event that any process acknowledged before the message was sent, and the message
// follows those events. This is the only guaranteed order between messages and events.
func (h *hub) broadcast(d *journal.Delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.begun || h.pendingBytes >= maxPending {
		return
	}
	h.broadcasts++
	waiting := item{d, h.broadcasts}
	h.pending = append(h.pending, waiting)
	h.pendingBytes += waiting.weight()
	h.fanout.Hint(h.space)
}

// queue appends an event of this Store, which directly follows the known ones, after
// the pending broadcasts, because it was committed after they were sent. If pending is
// full, the broadcasts in it are dropped.
func (h *hub) queue(d item) {
	switch {
	case len(h.pending) == 0:
		h.push(d)
	case h.pendingBytes >= maxPending:
		h.overtake()
		h.pending, h.pendingBytes = nil, 0
		h.push(d)
	default:
		h.pending = append(h.pending, d)
		h.pendingBytes += d.weight()
		h.pendingEvents++
	}
}

// overtake pushes the pending events, ahead of the pending broadcasts. It is called
// before an event of another process is pushed, which follows these events and may be
// older than the broadcasts.
func (h *hub) overtake() {
	if h.pendingEvents == 0 {
		return
	}
	h.pending = slices.DeleteFunc(h.pending, func(d item) bool {
		if d.IsBroadcast() {
			return false
		}
		h.pendingBytes -= d.weight()
		h.push(d)
		return true
	})
	h.pendingEvents = 0
	h.advanceHead()
}

// release pushes, in order, the pending broadcasts that had arrived when CatchUp took
// the state at, and the events between them. CatchUp has now read the journal. After a
// reset there are none: later broadcasts have higher numbers, and pending begins with one.
func (h *hub) release(at state) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pending) == 0 {
		return
	}
	n := 0
	for _, d := range h.pending {
		if d.nth > at.broadcasts {
			break
		}
		h.push(d)
		h.pendingBytes -= d.weight()
		if n++; !d.IsBroadcast() {
			h.head = d.Position
			h.pendingEvents--
		}
	}
	h.pending = slices.Delete(h.pending, 0, n)
	h.batch = 0
	h.advanceHead()
	h.announce()
}

// beyond reports whether the journal, which ends at last, has more than the hub, and
// whether to wait before reading it. The new events may be this Store's own, committed
// after the pending broadcasts; then Committed brings them when the current batch ends.
// CatchUp waits for one batch, not for later ones.
func (h *hub) beyond(last journal.Position) (more, wait bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last.Compare(h.known) <= 0 {
		return false, false
	}
	if len(h.pending) == 0 {
		return true, false
	}
	h.fanout.postpone(h.space)
	batch := h.fanout.source.Busy(h.space)
	if h.batch == 0 {
		h.batch = batch
	}
	return true, batch != 0 && batch == h.batch
}

// advanceHead sets head to known if no event is pending.
func (h *hub) advanceHead() {
	if h.pendingEvents == 0 {
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
		// this Store's own, which belongs after the pending broadcasts.
		if e.Position.Epoch > last.Epoch || len(h.pending) > 0 && e.Position.Compare(last) > 0 {
			h.fanout.Hint(h.space)
			h.announce()
			return false
		}
		if e.Position.Compare(h.known) > 0 {
			h.overtake()
			h.push(item{Delivery: &journal.Delivery{Event: e}})
			h.known = e.Position
			h.advanceHead()
		}
	}
	// Commits without events move the head but leave nothing to read.
	if page.Next.IsZero() && last.Compare(h.known) > 0 {
		h.known = last
		h.advanceHead()
	}
	h.announce()
	return true
}

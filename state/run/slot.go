package run

import (
	"errors"
	"slices"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// slot admits one run at a time and queues the others in order. It is one record,
// so one check decides both which run is active and which comes next.
//
// In the slot of an owner's threads, runs that others asked for wait in Others,
// behind the owner's own in Queue, so that nobody keeps the owner out. Earlier
// versions had only Queue.
//
// The first runs of each line go ahead of the rest: those that interrupted another, the last
// one first, and then those that resume others, in their order.
type slot struct {
	key         string
	Active      string   `json:"active,omitempty"`
	Queue       []string `json:"queue,omitempty"`
	Others      []string `json:"others,omitempty"`
	Ahead       int      `json:"ahead,omitempty"`        // how many of Queue
	OthersAhead int      `json:"others_ahead,omitempty"` // how many of Others
}

// line is one of a slot's lines.
type line struct {
	ids   *[]string
	ahead *int
}

func (s *slot) queue() line    { return line{&s.Queue, &s.Ahead} }
func (s *slot) others() line   { return line{&s.Others, &s.OthersAhead} }
func (s *slot) lines() [2]line { return [2]line{s.queue(), s.others()} }

// insert puts a run at a place of the line. With first, it goes ahead of the rest.
func (l line) insert(at int, id string, first bool) {
	*l.ids = slices.Insert(*l.ids, at, id)
	if first {
		*l.ahead++
	}
}

func (l line) remove(id string) {
	i := slices.Index(*l.ids, id)
	if i < 0 {
		return
	}
	*l.ids = slices.Delete(*l.ids, i, i+1)
	if i < *l.ahead {
		*l.ahead--
	}
}

// maxQueue and maxOthers bound the runs that wait in Queue and in Others.
const (
	maxQueue  = 256
	maxOthers = 16
)

// waiting returns the runs that wait, in the order in which they will start.
func (s *slot) waiting() []string { return slices.Concat(s.Queue, s.Others) }

// ofOwner reports whether a run that actor asked for waits in Queue: actor is the
// thread's owner or Thole itself, or the slot serves only this thread.
func ofOwner(t *thread.Thread, actor string) bool {
	return slotKey(&t.Head) == threadSlot(t.ID) || actor == t.Owner || actor == "system"
}

const slotPrefix = "slot/"

// slotKey returns the key of t's slot. It lies outside the thread, because the runs
// that wait must still end when the thread is destroyed.
func slotKey(t *thread.Head) string {
	if t.RunScope == thread.PerUser && t.Owner != "" {
		return slotPrefix + thole.KeyPart(t.Owner, thole.MaxNameBytes-len(slotPrefix))
	}
	return threadSlot(t.ID)
}

func threadSlot(id string) string { return slotPrefix + "%/" + id } // no escaped name is "%"

func loadSlot(tx *thole.Tx, key string) (*slot, error) {
	s := &slot{key: key}
	_, err := tx.Load(key, s)
	for _, l := range s.lines() { // as an admin's raw commit can leave them
		*l.ahead = min(max(*l.ahead, 0), len(*l.ids))
	}
	return s, err
}

func (s *slot) put(tx *thole.Tx) {
	if s.Active == "" && len(s.waiting()) == 0 {
		tx.Delete(s.key)
		return
	}
	tx.Put(s.key, s, nil)
}

// Bounds of one promote, whose reads and writes belong to the caller's commit.
const (
	maxGone = 2  // runs of destroyed threads that it cancels and removes
	maxSick = 16 // runs that it skips because they cannot be read
)

// promote makes the first waiting run active if no run is. It removes runs that wait no
// longer, and cancels those whose threads are destroyed. After maxGone of those it makes
// even such a run active; whoever tries to begin it ends it. A run that cannot be read, or
// whose thread cannot, keeps its place, so that it starts once it is repaired. After
// maxSick of those, they move behind the others, and a later call goes on.
func (s *slot) promote(tx *thole.Tx) error {
	var gone, sick int
	for _, id := range s.waiting() {
		if s.Active != "" {
			break
		}
		if sick == maxSick {
			s.rotate(sick)
			break
		}
		r, err := load(tx, id)
		if err == nil && r.Status == Queued {
			err = thread.SetActive(tx, r.Thread, r.ID, thread.Busy)
		}
		switch notFound := errors.Is(err, thole.ErrNotFound); {
		case r == nil && isNone(err) || err == nil && r.Status != Queued:
			s.leave(id)
			continue
		case errors.Is(err, thole.ErrCorrupt) || errors.Is(err, thole.ErrInvalid): // as an admin's raw commit can leave it
			sick++
			continue
		case notFound && gone < maxGone: // its thread is destroyed: nothing is left to do
			gone++
			s.leave(id)
			r.Status, r.Cancel, r.Finished = Cancelled, &Cancel{Cause: BySuperseded, Time: tx.Now()}, tx.Now()
			tx.Release(key(r.ID))
			r.own.Slot = ""
			r.put(tx)
			r.emit(tx, "run.finished", FinishedData{Run: r.ID, Status: Cancelled, Cause: BySuperseded})
			continue
		case err != nil && !notFound:
			return err
		}
		s.leave(id)
		s.Active, r.own.Ready = r.ID, true
		r.put(tx)
		if !r.own.Reserved {
			tx.Put(r.readyKey(), ready{AskedBy: r.AskedBy}, nil)
		}
	}
	s.put(tx)
	return nil
}

// rotate moves the first n waiting runs to the ends of their lines.
func (s *slot) rotate(n int) {
	for _, l := range s.lines() {
		k := min(n, len(*l.ids))
		*l.ids = slices.Concat((*l.ids)[k:], (*l.ids)[:k])
		*l.ahead = max(*l.ahead-k, 0)
		n -= k
	}
}

func (s *slot) leave(id string) {
	if s.Active == id {
		s.Active = ""
	}
	for _, l := range s.lines() {
		l.remove(id)
	}
}

// yield puts the active run back at the front of Others. No worker has begun the
// run, and somebody other than the owner asked for it.
func (s *slot) yield(tx *thole.Tx, active *Run) error {
	s.Active, active.own.Ready = "", false
	s.others().insert(0, active.ID, true)
	tx.Delete(active.readyKey())
	active.put(tx)
	if err := thread.SetActive(tx, active.Thread, "", thread.Idle); err != nil && !errors.Is(err, thole.ErrNotFound) {
		return err
	}
	return nil
}

// begin starts a ready run and writes its request into the thread's history.
// Errors: ErrInvalid if there is no message to answer; those of [thread.BeginTurn].
func (r *Run) begin(tx *thole.Tx) error {
	t, err := thread.Load(tx, r.Thread)
	switch {
	case err != nil:
		return err
	case len(r.Request) == 0 && empty(t):
		return noMessage(thole.ErrInvalid, t.ID)
	case t.ActiveRun != r.ID: // the thread was repaired from an earlier copy, or the slot was lost
		s, err := loadSlot(tx, r.own.Slot)
		if err == nil && s.Active == r.ID {
			err = thread.SetActive(tx, r.Thread, r.ID, thread.Busy)
		}
		if err != nil {
			return err
		}
	}
	begin := thread.BeginTurn
	if r.own.Resumes {
		begin = thread.OpenTurn
	}
	turn, err := begin(tx, r.Thread, r.ID, r.Request)
	if err != nil {
		return err
	}
	r.asked = r.Request
	r.Status, r.Started, r.Turn, r.Request, r.own.Ready = Running, tx.Now(), turn, nil, false
	r.put(tx)
	if r.Timeout > 0 {
		tx.Put(deadlineKey(r.ID), struct{}{}, &thole.WriteOptions{Expires: tx.Expiry(seconds(r.Timeout))})
	}
	r.emit(tx, "run.started", StartedData{r.queuedData(), turn})
	return nil
}

// drop cancels a queued run whose thread is destroyed.
func (r *Run) drop(tx *thole.Tx) error {
	r.Cancel = &Cancel{Cause: BySuperseded, Time: tx.Now()}
	return r.finish(tx, Cancelled, "")
}

// finish ends the run in all its records and admits the next one. A run with a
// Cancel ends as cancelled or timed_out, whatever status says.
func (r *Run) finish(tx *thole.Tx, status, reason string) error {
	if r.Cancel != nil {
		status, reason = Cancelled, ""
		if r.Cancel.Cause == ByTimeout {
			status = TimedOut
		}
	}
	r.Status, r.Error, r.own.Ready, r.Finished = status, reason, false, tx.Now()
	r.WaitingFor, r.Waits, r.own.WaitsUntil = "", nil, nil
	slot := r.own.Slot
	r.own.Slot, r.own.Reserved = "", false
	if status == Succeeded { // it cannot be resumed
		if err := r.forgetTakings(tx); err != nil {
			return err
		}
	}
	r.put(tx)
	tx.Release(key(r.ID))
	tx.Delete(r.readyKey())
	tx.Delete(deadlineKey(r.ID))
	s, err := loadSlot(tx, slot)
	if err != nil {
		return err
	}
	var usage *Usage
	if sum := r.Total(); sum != (Usage{}) {
		usage = &sum
	}
	if s.Active == r.ID {
		err := thread.FinishTurn(tx, r.Thread, r.ID, turnStatus(status), usage)
		if err == nil && r.Cancel != nil && r.Cancel.Rollback && r.Turn != "" {
			err = thread.DropTurn(tx, r.Thread, r.Turn, r.ID)
		}
		switch {
		case errors.Is(err, thole.ErrNotFound), errors.Is(err, thole.ErrCorrupt), errors.Is(err, thole.ErrConflict):
			// The slot goes on: its thread is gone, cannot be read, or was repaired from
			// an earlier copy, which does not know of the run or of its turn.
		case err != nil:
			return err
		}
	}
	s.leave(r.ID)
	if err := s.promote(tx); err != nil {
		return err
	}
	e := FinishedData{Run: r.ID, Status: status, Turn: r.Turn, Error: reason, Usage: usage, Next: s.Active}
	if r.Cancel != nil {
		e.Cause = r.Cancel.Cause
	}
	r.emit(tx, "run.finished", e)
	return nil
}

func turnStatus(status string) string {
	switch status {
	case Succeeded:
		return thread.Done
	case Failed:
		return thread.Error
	}
	return thread.Interrupted
}

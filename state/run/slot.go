package run

import (
	"errors"
	"slices"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// slot admits one run at a time and keeps those that wait in order. It is one
// record, so that who is active and who is next are decided in one place.
//
// In a slot of an owner's threads, what others asked for waits in a line of its own,
// behind the owner's, so that nobody keeps the owner out. Earlier versions had one
// line.
type slot struct {
	key    string
	Active string   `json:"active,omitempty"`
	Queue  []string `json:"queue,omitempty"`
	Others []string `json:"others,omitempty"`
}

// How many runs may wait in one slot: in Queue, and in Others.
const (
	maxQueue  = 256
	maxOthers = 16
)

// waiting returns the runs that wait, in the order in which they will start.
func (s *slot) waiting() []string { return slices.Concat(s.Queue, s.Others) }

// next takes the first run out of the line; "" if none waits.
func (s *slot) next() (id string) {
	for _, line := range []*[]string{&s.Queue, &s.Others} {
		if len(*line) > 0 {
			id, *line = (*line)[0], (*line)[1:]
			return id
		}
	}
	return ""
}

// ofOwner reports whether actor is the thread's owner, or Thole, or the line is the
// thread's alone.
func ofOwner(t *thread.Thread, actor string) bool {
	return slotKey(t) == threadSlot(t.ID) || actor == t.Owner || actor == "system"
}

const slotPrefix = "slot/"

// slotKey lies outside the thread: who waits in one that is destroyed must still
// hear of it.
func slotKey(t *thread.Thread) string {
	if t.RunScope == thread.PerUser && t.Owner != "" {
		return slotPrefix + thole.KeyPart(t.Owner, thole.MaxNameBytes-len(slotPrefix))
	}
	return threadSlot(t.ID)
}

func threadSlot(id string) string { return slotPrefix + "%/" + id } // which no escaped name is

func loadSlot(tx *thole.Tx, key string) (*slot, error) {
	s := &slot{key: key}
	_, err := tx.Load(key, s)
	return s, err
}

func (s *slot) put(tx *thole.Tx) {
	if s.Active == "" && len(s.waiting()) == 0 {
		tx.Delete(s.key)
		return
	}
	tx.Put(s.key, s, nil)
}

// maxGone bounds how many runs whose threads are gone one commit passes over.
const maxGone = 2

// promote makes the first in the queue active, if nothing is. That may be one
// whose thread is gone, behind others such: who begins it ends it.
func (s *slot) promote(tx *thole.Tx) error {
	for gone := 0; s.Active == ""; {
		id := s.next()
		if id == "" {
			break
		}
		r, err := load(tx, id)
		if errors.Is(err, thole.ErrNotFound) {
			continue
		} else if err != nil {
			return err
		}
		err = thread.SetActive(tx, r.Thread, r.ID, thread.Busy)
		notFound := errors.Is(err, thole.ErrNotFound)
		if gone++; notFound && gone <= maxGone { // its thread is gone, and so is its reason
			r.Status, r.Cancel, r.Finished = Cancelled, &Cancel{Cause: BySuperseded, Time: tx.Now()}, tx.Now()
			tx.Release(key(r.ID))
			r.own.Slot = ""
			r.put(tx)
			r.emit(tx, "run.finished", Event{Status: Cancelled, Cause: BySuperseded})
			continue
		} else if err != nil && !notFound {
			return err
		}
		s.Active, r.own.Ready = r.ID, true
		r.put(tx)
		if !r.own.Reserved {
			tx.Put(r.readyKey(), ready{AskedBy: r.AskedBy}, nil)
		}
	}
	s.put(tx)
	return nil
}

func (s *slot) leave(id string) {
	if s.Active == id {
		s.Active = ""
	}
	for _, line := range []*[]string{&s.Queue, &s.Others} {
		*line = slices.DeleteFunc(*line, func(q string) bool { return q == id })
	}
}

// yield puts the active run, which is not the owner's and which no worker has begun,
// back in front of its line.
func (s *slot) yield(tx *thole.Tx, active *Run) error {
	s.Active, active.own.Ready = "", false
	s.Others = slices.Insert(s.Others, 0, active.ID)
	tx.Delete(active.readyKey())
	active.put(tx)
	if err := thread.SetActive(tx, active.Thread, "", thread.Idle); err != nil && !errors.Is(err, thole.ErrNotFound) {
		return err
	}
	return nil
}

// begin moves a ready run from the queue into the thread's history.
func (r *Run) begin(tx *thole.Tx) error {
	turn, err := thread.BeginTurn(tx, r.Thread, r.ID, r.Request)
	if err != nil {
		return err
	}
	r.asked = r.Request
	r.Status, r.Started, r.Turn, r.Request, r.own.Ready = Running, tx.Now(), turn, nil, false
	r.put(tx)
	if r.Timeout > 0 {
		tx.Put(deadlineKey(r.ID), struct{}{}, &thole.WriteOptions{Expires: tx.Now().Add(seconds(r.Timeout))})
	}
	r.emit(tx, "run.started", Event{Turn: turn, Agent: r.Agent, Model: r.Model, Parent: r.Parent, ResumedFrom: r.ResumedFrom})
	return nil
}

// drop ends a queued run whose thread is gone.
func (r *Run) drop(tx *thole.Tx) error {
	r.Cancel = &Cancel{Cause: BySuperseded, Time: tx.Now()}
	return r.finish(tx, Cancelled, "")
}

// finish ends the run in every record that knows of it, and lets the next one
// in. A run that was cancelled ends so whatever its worker says.
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
	if status == Succeeded { // nobody resumes it
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
		if err != nil && !errors.Is(err, thole.ErrNotFound) {
			return err
		}
	}
	s.leave(r.ID)
	if err := s.promote(tx); err != nil {
		return err
	}
	e := Event{Status: status, Turn: r.Turn, Error: reason, Usage: usage, Next: s.Active}
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

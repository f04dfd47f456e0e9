package sqlitestore_test

import (
	"context"
	"fmt"
	"strings"
)

// fault is something that goes wrong once, except for a full disk, which stays full
// until there is space.
type fault int

const (
	shortWrite fault = iota
	noSpace
	readFails
	writeFails
	truncateFails
	syncFails
	deleteFails
	cancelled // not of the disk: the caller's context is cancelled
	powerLost
	faultKinds
)

var faultNames = [faultKinds]string{
	"short write", "ENOSPC", "EIO on read", "EIO on write", "EIO on truncate",
	"failed fsync", "EIO on delete", "cancelled", "crash clones",
}

// operation is something that a program asks of a disk.
type operation int

const (
	reading operation = iota
	writing
	truncating
	syncing
	deleting
	creating
)

// faults says which fault strikes when.
type faults struct {
	armed  []strike
	full   bool
	cancel context.CancelCauseFunc // cancels the current call
	paused bool
	fired  tally
	echoes int // failed syncs that were also reported to other open files
}

// strike is a fault that strikes the operation after next others of its kind.
type strike struct {
	fault
	next int
}

// tally counts the faults that struck.
type tally [faultKinds]int

func (t *tally) add(other tally) {
	for i, n := range other {
		t[i] += n
	}
}

func (t *tally) total() (n int) {
	for _, fired := range t {
		n += fired
	}
	return n
}

func (t tally) String() string {
	var parts []string
	for kind, n := range t {
		parts = append(parts, fmt.Sprintf("%s %d", faultNames[kind], n))
	}
	return strings.Join(parts, ", ")
}

// concerns reports whether f can strike op.
func (f fault) concerns(op operation) bool {
	switch f {
	case shortWrite, writeFails:
		return op == writing
	case noSpace:
		return op == writing || op == syncing || op == creating
	case readFails:
		return op == reading
	case truncateFails:
		return op == truncating
	case syncFails:
		return op == syncing
	case deleteFails:
		return op == deleting
	case cancelled:
		return true
	}
	return op != reading
}

// next returns the fault that strikes op now, if any. The caller holds p.mu.
func (p *platter) next(op operation) (_ fault, strikes bool) {
	if p.paused {
		return 0, false
	}
	for i := range p.armed {
		s := &p.armed[i]
		if !s.concerns(op) {
			continue
		}
		if s.next--; s.next >= 0 {
			continue
		}
		kind := s.fault
		p.armed = append(p.armed[:i], p.armed[i+1:]...)
		switch kind {
		case noSpace:
			p.full = true
		case cancelled:
			if p.cancel == nil {
				return 0, false
			}
			p.cancel(errGaveUp)
		}
		p.fired[kind]++
		return kind, true
	}
	return 0, false
}

// arm makes f strike the operation after next others that it concerns.
func (p *platter) arm(f fault, next int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = append(p.armed, strike{f, next})
}

// disarm removes the faults that have not struck yet and makes space again.
func (p *platter) disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.full = nil, false
}

// pause holds faults back until resume is called.
func (p *platter) pause() (resume func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.paused = false
	}
}

// seen returns how many faults have struck, and whether they may continue.
func (p *platter) seen() (n int, lasting bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fired.total() + p.echoes, p.full || p.off
}

// whoWaits sets the function that the fault cancelled calls.
func (p *platter) whoWaits(cancel context.CancelCauseFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel = cancel
}

func (p *platter) isOff() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.off
}
